"""Blob storage: the real blob server, the gateway before it, and folders synchronised with it."""
