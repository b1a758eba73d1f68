"""Outputs of a run's metrics: files and TensorBoard; the interface of observers."""
