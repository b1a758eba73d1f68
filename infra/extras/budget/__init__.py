"""The monthly budget of a stack, and whom it notifies."""
