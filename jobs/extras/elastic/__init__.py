"""Leaf: a run that continues on the nodes that there are."""
