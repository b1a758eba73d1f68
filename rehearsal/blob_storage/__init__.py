"""Blob storage: the real blob server, what stands before it, and who may read and write."""
