"""The kinds of resource that Resource Manager keeps, each with its own rules."""
