"""A run on Spot nodes that come and go, simulated."""
