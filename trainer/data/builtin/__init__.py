"""Data sets that need no files of the user's."""
