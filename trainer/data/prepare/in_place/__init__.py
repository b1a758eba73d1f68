"""Data sets of other tools, described without a copy."""
