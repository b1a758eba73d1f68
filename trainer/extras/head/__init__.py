"""Head groups: a last layer whose classes are shared by a group of ranks."""
