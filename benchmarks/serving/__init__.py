"""The cost of using an exported model: by requests, in folders, and with another engine."""
