"""Tests of the parts of image files that a data set takes over."""
