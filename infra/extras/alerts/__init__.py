"""Alerts on the logs of clusters and jobs, and the people whom they notify."""
