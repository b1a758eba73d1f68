"""A step: from gradients to new weights, over all ranks, and its interfaces."""
