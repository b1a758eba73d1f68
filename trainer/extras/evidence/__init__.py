"""A chain of signed statements about how a run was made, which can be checked and replayed."""
