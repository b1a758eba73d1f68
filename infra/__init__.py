"""The platform: everything on Azure that a team needs to train privately, declared with Pulumi."""
