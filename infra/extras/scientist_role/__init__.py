"""A role for scientists who use the stack's clusters and create none."""
