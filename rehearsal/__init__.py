"""Azure on loopback: Resource Manager, Azure Machine Learning and blob storage for rehearsals."""
