"""Azure Monitor through a private link scope: logs and metrics through the network."""
