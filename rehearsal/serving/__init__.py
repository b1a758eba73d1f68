"""Endpoints of models: Resource Manager, servers as processes, and the address that answers."""
