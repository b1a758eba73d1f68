"""Benchmarks of preparing and reading data."""
