"""Jobs that turn many files into others by units: preparations of data, and scoring in batch."""
