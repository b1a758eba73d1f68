"""Checkpoints: complete or absent, verified before they are used, written while it trains."""
