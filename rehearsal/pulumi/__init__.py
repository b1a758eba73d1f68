"""Runs Pulumi's real engine against Azure on loopback."""
