"""What a step, the exchange of gradients and a save cost."""
