"""A machine inside the network to work from, and the Bastion that leads to it."""
