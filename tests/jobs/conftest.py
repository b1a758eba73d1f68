"""Settings of all tests of jobs, and the simulator of Azure that they share."""

import os

from tests.cases import load_profile
from tests.jobs.support.live import azure, live, outputs, simulated_platform
from tests.jobs.support.pulumi import pulumi
from tests.jobs.support.torn_down import half, stack
from tests.jobs.support.webhook import receiver
from tests.requests_sent import judged_requests, noted_requests

__all__ = [
    "azure",
    "half",
    "judged_requests",
    "live",
    "noted_requests",
    "outputs",
    "pulumi",
    "receiver",
    "simulated_platform",
    "stack",
]

# These tests run on machines of GitHub too, where commands that move data refuse to run.
os.environ.pop("RUNNER_ENVIRONMENT", None)

load_profile()
