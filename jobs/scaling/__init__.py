"""A scaling sweep of clusters: what nodes do, measured."""
