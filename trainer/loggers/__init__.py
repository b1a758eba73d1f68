"""Where a run's figures go: terminal, files, TensorBoard, MLflow."""
