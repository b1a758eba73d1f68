"""Facts about Azure that the platform relies on, each with its source."""
