"""The model that is handed over, and predictions with it."""
