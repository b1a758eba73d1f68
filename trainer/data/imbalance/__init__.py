"""Classes of very different sizes: weights of their losses, or rarer images more often."""
