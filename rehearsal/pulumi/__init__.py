"""Pulumi's real engine against this Azure."""
