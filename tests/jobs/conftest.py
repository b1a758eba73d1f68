"""Settings of all tests of jobs, and the simulator of Azure that they share."""

import os

from hypothesis import settings

from tests.jobs.support.live import azure, live, outputs, simulated_platform
from tests.jobs.support.pulumi import pulumi
from tests.jobs.support.torn_down import stack
from tests.jobs.support.webhook import receiver

__all__ = ["azure", "live", "outputs", "pulumi", "receiver", "simulated_platform", "stack"]

# These tests run on machines of GitHub too, where commands that move data refuse to run.
os.environ.pop("RUNNER_ENVIRONMENT", None)

# How long an example takes depends on who else uses the machine.
settings.register_profile("jobs", deadline=None)
settings.load_profile("jobs")
