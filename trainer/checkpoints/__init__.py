"""Checkpoints: complete or absent, verified before use, and written in the background."""
