"""The parts of the platform, one Pulumi component a concern."""
