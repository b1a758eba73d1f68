"""Describe the states of a job. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from common.text import duration, plural
from jobs.console import next_command
from jobs.job_kinds import kind_of
from jobs.spec.budget_policy import LIMIT

if TYPE_CHECKING:
    from jobs.azure.job_records import Job

_WORDS: Final[Mapping[str, str]] = {
    "NotStarted": "accepted",
    "Queued": "queued, waiting for {nodes} of {cluster}",
    "Provisioning": "nodes are being allocated",
    "Preparing": "preparing: pulling the image, or building it on first use",
    "Starting": "starting on {nodes} of {cluster}",
    "Running": "running on {nodes} of {cluster}",
    "Finalizing": "ended; its outputs are being uploaded",
    "CancelRequested": "being cancelled",
    "NotResponding": "sends no heartbeat; it may still be training",
    "Paused": "paused",
    "Completed": "completed",
    "Failed": "failed",
    "Canceled": "cancelled",
}

WAITING: Final = ("NotStarted", "Queued", "Provisioning", "Preparing", "Starting")
"""States of a job before its program runs."""

FINALIZING: Final = "Finalizing"
"""State of a job whose program has ended, while Azure uploads its outputs."""
FINALIZING_SECONDS: Final = 3600.0
"""Seconds after which a job that is still in that state is reported, and again after as many."""

_OLD: Final = ("Running", "Finalizing")

HINT_SECONDS: Final = (300.0, 1800.0, 7200.0)
"""Seconds in the queue after which the reason is looked up; repeated at the last interval."""


def words(status: str, nodes: int, cluster: str) -> str:
    """Describe a state in words."""
    count = "1 node" if nodes == 1 else f"{nodes} nodes"
    return _WORDS.get(status, status).format(nodes=count, cluster=cluster)


def continues(kind: str) -> str:
    """Say where a job of a kind begins after a restart."""
    return f"which {kind_of(kind).continues or 'begins anew'}"


def restarted(before: str, now: str) -> bool:
    """Whether Azure has restarted a job under the same name, as it may after pre-emption."""
    return before in _OLD and now in WAITING


def since(created: datetime, now: datetime) -> str:
    """Return since when a job has been queued, in words; empty in its first minute."""
    if now - created <= timedelta(minutes=1):
        return ""
    date = "" if created.date() == now.date() else "%Y-%m-%d "
    return f" (since {created.strftime(f'{date}%H:%M')} UTC)"


def finalizing(job: "Job", waited: float | None = None) -> str:
    """Say what a job costs whose outputs Azure still uploads.

    Args:
        job: The job.
        waited: Seconds since its program has ended; None if unknown.
    """
    since = f" after {duration(waited)}" if waited is not None else ""
    budget = ", and the time counts toward its budget" if LIMIT in job.tags else ""
    return (
        f"its program has ended, but its outputs are still being uploaded{since};"
        f" {plural(job.nodes, 'node')} of {job.cluster} {'is' if job.nodes == 1 else 'are'}"
        f" billed{budget}. `{next_command('cancel', job.run)}` ends it and keeps all that the run"
        " has saved"
    )


def hint_due(waited: float, given: int) -> bool:
    """Whether it is time to print why a job is still queued."""
    last = HINT_SECONDS[-1]
    if given < len(HINT_SECONDS):
        return waited >= HINT_SECONDS[given]
    return waited >= last * (given - len(HINT_SECONDS) + 2)
