"""Metrics of a run for MLflow."""
