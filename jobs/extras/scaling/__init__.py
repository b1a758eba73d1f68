"""Measurements of clusters by number of nodes. Needs `estimate`."""
