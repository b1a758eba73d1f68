"""Timing of single examples says nothing on a machine that others use too."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
