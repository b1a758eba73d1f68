"""The parts of the platform, one Pulumi component per concern."""
