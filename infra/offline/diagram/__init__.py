"""The architecture picture: drawn from a stack's declared resources, and from nothing else."""
