"""Azure's front: HTTPS, sign-in, Resource Manager's requests, and faults on demand."""
