"""The code of own networks, which is part of their runs."""
