"""Data sets that need no input files."""
