"""Pulumi: its CLI, the outputs of a stack, and its teardown."""
