"""Sweeps of Azure Machine Learning: trials over all combinations of values of options."""
