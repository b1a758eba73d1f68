"""What a job's states mean to the person who waits. Pure."""

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {
    "NotStarted": "accepted",
    "Queued": "queued, waits for {nodes} of {cluster}",
    "Provisioning": "nodes are made ready",
    "Preparing": "prepares: the image is pulled, or built if this is its first use",
    "Starting": "starts on {nodes} of {cluster}",
    "Running": "runs on {nodes} of {cluster}",
    "Finalizing": "has ended; what it wrote is put away",
    "CancelRequested": "is being cancelled",
    "NotResponding": "sends no sign of life; it may still train",
    "Paused": "is paused",
    "Completed": "completed",
    "Failed": "failed",
    "Canceled": "cancelled",
}

WAITING: Final = ("NotStarted", "Queued", "Provisioning", "Preparing", "Starting")
"""States before the program runs."""

_OLD: Final = ("Running", "Finalizing")

HINT_SECONDS: Final = (300.0, 1800.0, 7200.0)
"""In the queue until a reason is looked for; after the last of them every so often."""


def words(status: str, nodes: int, cluster: str) -> str:
    """A state in words.

    Args:
        status: Azure's word.
        nodes: that the job asks for.
        cluster: that it runs on.
    """
    count = "1 node" if nodes == 1 else f"{nodes} nodes"
    return _WORDS.get(status, status).format(nodes=count, cluster=cluster)


def restarted(before: str, now: str) -> bool:
    """Whether Azure has begun a job anew in its place, as it may with nodes that it took back."""
    return before in _OLD and now in WAITING


def hint_due(waited: float, given: int) -> bool:
    """Whether it is time to say why a job is still queued.

    Args:
        waited: seconds in the queue.
        given: hints until now.
    """
    last = HINT_SECONDS[-1]
    if given < len(HINT_SECONDS):
        return waited >= HINT_SECONDS[given]
    return waited >= last * (given - len(HINT_SECONDS) + 2)
