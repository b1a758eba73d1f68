"""Sharded state: the state of the optimizer divided over all ranks."""
