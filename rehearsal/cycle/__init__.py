"""The whole life of a platform on this machine, step by step."""
