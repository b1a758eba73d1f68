"""One training run: its sizes and schedule, its loop, its evaluations and its checkpoints."""
