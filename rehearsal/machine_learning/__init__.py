"""Azure Machine Learning: jobs, their nodes and processes, run history and metrics."""
