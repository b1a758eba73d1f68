"""Runs Pulumi's real engine against the simulator."""
