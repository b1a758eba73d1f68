"""A stand-in for Azure on loopback: Resource Manager, Azure Machine Learning and blob storage."""
