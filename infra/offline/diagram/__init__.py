"""The architecture picture, drawn only from a stack's declared resources."""
