"""Scoring in batch: the classes of all images in a folder of storage, as a job."""
