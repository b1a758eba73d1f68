"""Blob storage: the real blob server, the gateway in front of it, and synchronized folders."""
