"""From a stack's outputs to a job of Azure Machine Learning that runs the trainer."""
