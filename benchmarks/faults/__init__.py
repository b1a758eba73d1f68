"""Trainings with injected faults."""
