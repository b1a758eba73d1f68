"""Measurements of the shipped code, each beside what it is compared with."""
