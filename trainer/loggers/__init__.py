"""Outputs of a run's metrics: terminal, files, TensorBoard, MLflow."""
