"""Kinds of resources with their own rules in Resource Manager."""
