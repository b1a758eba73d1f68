"""What Azure is asked: the workspace, its jobs, its assets and its containers."""
