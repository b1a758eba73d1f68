"""Near-duplicates: held-out images of which the training split has nearly the same."""
