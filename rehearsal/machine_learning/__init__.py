"""Azure Machine Learning: jobs, their nodes and processes, and what became of them."""
