"""Facts about Azure that the platform is declared from, each with where it is documented."""
