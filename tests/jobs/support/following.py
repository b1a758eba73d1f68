"""Runs that are followed on the simulator: options that do not wait, and what became of a run."""

from tests.jobs.support.runs import content
from tests.jobs.support.tiny import begin, status, wait_for

QUICK = ["--poll-seconds", "0.1"]
ONCE = 'if [ ! -e "${{outputs.run}}/n" ] && touch "${{outputs.run}}/n"'
"""Condition of a shell that holds in the first attempt alone."""
AGAIN = ["--supervise", "--resubmit.backoff-seconds", "0.1"]


def touched(live, run):
    return content(live, f"runs/{run}/n") is not None


def asked(live, path):
    return any(path in request.path for request in live.azure.requests)


def failed_by_pre_emption(live, run, tags=()):
    """Submit an attempt that is pre-empted while no command follows it."""
    job = begin(live, run, "sleep 600", cluster=live.outputs.clusters["gpu"], tags=tags)
    wait_for(lambda: status(live, job) == "Running")
    live.azure.admin.preempt(job=job)
    wait_for(lambda: status(live, job) == "Failed")
    return job
