"""Uploads to and downloads from blob containers, resumable and verified."""
