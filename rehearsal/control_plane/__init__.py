"""Azure's control plane: HTTPS, authentication, Resource Manager, and faults on request."""
