"""Statements of runs, on models that are registered and deployed."""
