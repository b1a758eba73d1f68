"""A scaling sweep of this machine: throughput by number of ranks."""
