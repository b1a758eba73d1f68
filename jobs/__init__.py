"""Build, submit and follow Azure Machine Learning jobs that run the trainer on a deployed stack."""
