"""The whole life cycle of a platform on this machine, step by step."""
