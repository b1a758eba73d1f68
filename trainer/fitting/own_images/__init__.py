"""Presets for own images at 224 pixels: from random weights, and from the weights of others."""
