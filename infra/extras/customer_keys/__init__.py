"""Encryption at rest with a key of the vault, in place of keys that Azure manages."""
