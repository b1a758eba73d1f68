"""Deploy and delete a stack, and submit and follow the Azure Machine Learning jobs that run the
trainer on it.
"""
