"""Semantic segmentation: one class per pixel. Class 0 is the background."""
