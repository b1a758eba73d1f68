"""Benchmarks of a step, the exchange of gradients, and saving."""
