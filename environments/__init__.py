"""The images that jobs run in, and what builds them here as Azure Machine Learning does there."""
