"""The images that jobs run in, and their local builds, as Azure Machine Learning builds them."""
