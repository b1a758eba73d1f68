"""Tests of what a data set takes over of files of images."""
