"""Trainings that are disturbed."""
