"""Options of the notices that Azure gives before it takes a node. Standard library only."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from trainer.leaf import Leaf

AZURE = "azure"
NOWHERE = "nowhere"


@dataclass(frozen=True)
class EventOptions:
    """Azure's notices before it takes, restarts or freezes a node."""

    address: str = AZURE
    """Where one rank of each node asks once a second: azure is the metadata service of the VM, in
    jobs of Azure Machine Learning alone; nowhere asks nothing; or another server, such as
    http://127.0.0.1:8080. If the node is to be taken, all ranks leave after the same step and save,
    and the run ends as after a SIGTERM."""


def _problems(config: Any) -> list[str]:
    address = config.of(EventOptions).address
    parts = urlsplit(address)
    if address in (AZURE, NOWHERE) or (parts.scheme == "http" and parts.hostname):
        return []
    return [
        f"--events.address: {address!r} must be {AZURE}, {NOWHERE}, or an address such as"
        " http://127.0.0.1:8080"
    ]


LEAF = Leaf(
    key="events",
    options=EventOptions,
    on_resume="unreported",
    problems=_problems,
    observer="trainer.extras.scheduled_events.observer:EventObserver",
)
