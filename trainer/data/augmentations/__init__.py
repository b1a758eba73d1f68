"""Changes of training images: a function and an option of `DataConfig` each, in `table.py`."""
