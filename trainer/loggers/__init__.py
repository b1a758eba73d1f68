"""Outputs of a run's metrics: terminal, files, TensorBoard; the interface of observers."""
