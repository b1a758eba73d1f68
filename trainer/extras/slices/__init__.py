"""Metrics of parts of the held-out images, such as those of one camera or hospital."""
