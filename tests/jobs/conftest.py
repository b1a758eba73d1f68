"""Settings of all tests of jobs."""

from hypothesis import settings

# How long an example takes depends on who else uses the machine.
settings.register_profile("jobs", deadline=None)
settings.load_profile("jobs")
