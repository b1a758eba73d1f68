"""From gradients to new weights, over all ranks."""
