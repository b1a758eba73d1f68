"""What a network learns to predict from an image: how records become targets."""
