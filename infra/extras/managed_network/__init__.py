"""The managed network of Azure Machine Learning, in place of subnets for nodes."""
