"""Export of a run's model, and predictions with an exported model."""
