"""Copies of the registry in other regions, for stacks there."""
