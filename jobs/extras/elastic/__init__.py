"""A run that continues on the nodes that there are. Needs `estimate`."""
