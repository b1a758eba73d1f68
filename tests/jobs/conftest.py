"""Settings of all tests of jobs, and the Azure on loopback that they share."""

from hypothesis import settings

from tests.jobs.support.live import azure, live, platform_on_loopback

__all__ = ["azure", "live", "platform_on_loopback"]

# How long an example takes depends on who else uses the machine.
settings.register_profile("jobs", deadline=None)
settings.load_profile("jobs")
