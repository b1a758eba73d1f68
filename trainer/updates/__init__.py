"""A step: from gradients to new weights, over all ranks, and the interfaces of leaves that change it."""
