"""Data sets of other tools: found by the names of their files, and read or described in place."""
