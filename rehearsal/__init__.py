"""A simulator of Azure: Resource Manager, Azure Machine Learning and blob storage."""
