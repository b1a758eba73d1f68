"""Requests to Azure: the workspace, its jobs, its assets and its containers."""
