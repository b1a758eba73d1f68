"""The reaction of a rank to an event that Azure has scheduled for a VM. Pure.

Source: "Azure Metadata Service: Scheduled Events for Linux VMs". Spot VMs get their notice of a
`Preempt` at least 30 seconds ahead, the others minutes. Events are delivered to all VMs of a scale
set's placement group, so one may be about another VM than the one that reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

Reaction = Literal["stop", "wait", "note", "other node"]
"""stop: ask all ranks to leave after the current step, and save. wait: stop shortly before the
event. note: only say it."""

_TAKEN: Final = ("Preempt",)
"""Events that come soon, and take the VM."""
_RESTARTED: Final = ("Terminate", "Reboot", "Redeploy")
"""Events that come after minutes, and end what runs on the VM."""
LEAD_SECONDS: Final = 120.0
"""Time before a restart at which the ranks stop; until then they train."""

_DONE: Final[Mapping[Reaction, str]] = {
    "stop": "all ranks stop after this step, and save",
    "wait": f"training continues until {LEAD_SECONDS:.0f} s before",
    "note": "training continues, as this ends no process",
    "other node": "nothing is done, as it concerns another VM than this node",
}


@dataclass(frozen=True)
class Event:
    """An event that Azure has scheduled."""

    id: str
    kind: str
    """Preempt, Terminate, Reboot, Redeploy or Freeze."""
    resources: tuple[str, ...] = ()
    """Names of the VMs that it concerns."""
    not_before: datetime | None = None
    """Earliest time; None once it has begun, or if Azure states none."""

    def words(self, reaction: Reaction) -> str:
        """Return the announcement and the reaction to it."""
        when = "now" if self.not_before is None else f"at {self.not_before:%H:%M:%S} UTC"
        return f"Azure announces {self.kind} {when}: {_DONE[reaction]}"


def read_events(document: Any) -> list[Event]:
    """Read the answer of the metadata service.

    Raises:
        ValueError: It has another form.
    """
    try:
        return [
            Event(
                str(event["EventId"]),
                str(event["EventType"]),
                tuple(map(str, event.get("Resources") or ())),
                _time(event.get("NotBefore")),
            )
            for event in document["Events"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is not a list of events ({error!r})") from error


def reaction(event: Event, name: str, now: datetime) -> Reaction:
    """Decide what to do about an event.

    Args:
        event: The event.
        name: Name of this node's VM; empty if unknown, which makes each event its own.
        now: Current time.
    """
    if name and event.resources and name.lower() not in map(str.lower, event.resources):
        return "other node"
    if event.kind in _TAKEN:
        return "stop"
    if event.kind not in _RESTARTED:
        return "note"
    soon = event.not_before is None or (event.not_before - now).total_seconds() <= LEAD_SECONDS
    return "stop" if soon else "wait"


def _time(text: Any) -> datetime | None:
    if not text:
        return None
    try:
        when = parsedate_to_datetime(str(text))
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
