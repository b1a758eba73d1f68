"""Multi-label classification: any number of classes per image."""
