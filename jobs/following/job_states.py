"""Describe the states of a job. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from jobs.job_kinds import kind_of

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


def hint_due(waited: float, given: int) -> bool:
    """Whether it is time to print why a job is still queued."""
    last = HINT_SECONDS[-1]
    if given < len(HINT_SECONDS):
        return waited >= HINT_SECONDS[given]
    return waited >= last * (given - len(HINT_SECONDS) + 2)
