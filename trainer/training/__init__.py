"""One training run: its numbers, its loop, and what is evaluated and saved of it."""
