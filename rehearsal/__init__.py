"""A simulator of Azure on this machine: Resource Manager, Azure Machine Learning and blob storage."""
