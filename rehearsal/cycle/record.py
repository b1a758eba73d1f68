"""What one rehearsal of the whole cycle did: the contract of its runner with its page. Pure.

Times are seconds since the epoch, durations are in seconds.
"""

import dataclasses
import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from common import fields
from rehearsal.control_plane.faults import Request
from rehearsal.cycle.request_kinds import Service, classify
from rehearsal.errors import RehearsalError

Outcome = Literal["ok", "failed", "skipped"]

_ABSENT = {404, 416}
"""The second comes of asking for more of a blob than has been written yet."""


@dataclass(frozen=True)
class Step:
    """One step of the cycle."""

    name: str
    """Short and unique, such as `up`."""
    title: str
    """For people, such as Deploy the dev stack."""
    command: str
    """As a person would give it; may be empty."""
    began: float
    seconds: float
    """0 if it was skipped."""
    outcome: Outcome
    lines: tuple[str, ...] = ()
    """What it found, such as `118 created`; what was wrong, if it failed."""
    place: str | None = None
    """Where to look if it failed: a file, or a command."""


@dataclass(frozen=True)
class Attempt:
    """One job of a training: the first, or one that was submitted again."""

    job: str
    cluster: str
    nodes: int
    ranks: int
    began: float
    ended: float | None
    """None if it was still running when the cycle ended."""
    status: str
    """In Azure's words, such as Completed or Failed."""
    reason: str = ""
    """Why it ended, such as Azure's message; may be empty."""
    first_step: int | None = None
    """Of the training, that this attempt did; 1 if it began anew."""
    last_step: int | None = None


@dataclass(frozen=True)
class Pool:
    """The nodes of a cluster over time."""

    cluster: str
    size: str
    """Of the virtual machines, such as Standard_ND40rs_v2."""
    priority: str
    """In Azure's words: LowPriority or Dedicated."""
    samples: tuple[tuple[float, int], ...]
    """When, and how many nodes were allocated from then on; the oldest first."""


@dataclass(frozen=True)
class Kind:
    """Requests that asked for the same."""

    service: Service
    method: str
    """Of HTTP."""
    resource: str
    """What was asked for, without names and ids, such as `workspaces/jobs`."""
    count: int
    errors: int
    """Answered with a status from 400 on, or not at all, and not among those that follow."""
    median_ms: float | None = None
    """None if it was not measured."""
    absent: int = 0
    """Answered that what was asked for is not there: not yet, no longer, or no more of it."""


@dataclass(frozen=True)
class Link:
    """Something that the cycle left behind."""

    title: str
    target: str
    """Path relative to the page."""


@dataclass(frozen=True)
class Cycle:
    """One rehearsal of the whole cycle, whole or broken off."""

    title: str
    began: float
    seconds: float
    machine: str
    """Such as `Linux, 2 cores`."""
    engine_version: str
    """Of Pulumi's engine."""
    versions: tuple[tuple[str, str], ...] = ()
    """Name and version of what else took part, such as ("azure-ai-ml", "1.35.2")."""
    steps: tuple[Step, ...] = ()
    """In the order of the cycle; what comes after a failure is skipped."""
    attempts: tuple[Attempt, ...] = ()
    """The oldest first."""
    pools: tuple[Pool, ...] = ()
    kinds: tuple[Kind, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def failed(self) -> Step | None:
        """The first step that failed, if one did."""
        return next((step for step in self.steps if step.outcome == "failed"), None)


def kinds(requests: Sequence[Request]) -> tuple[Kind, ...]:
    """Recorded requests by what they asked for; by service, the most frequent first."""
    alike: dict[tuple[Service, str, str], list[Request]] = defaultdict(list)
    for request in requests:
        service, resource = classify(request.method, request.path, request.query)
        alike[service, request.method, resource].append(request)
    order = get_args(Service)
    found = [_kind(*key, each) for key, each in alike.items()]
    return tuple(
        sorted(found, key=lambda k: (order.index(k.service), -k.count, k.resource, k.method))
    )


def _kind(service: Service, method: str, resource: str, requests: Sequence[Request]) -> Kind:
    absent = sum(request.status in _ABSENT for request in requests)
    errors = sum(request.status == 0 or request.status >= 400 for request in requests) - absent
    times = [request.seconds for request in requests if request.seconds is not None]
    median = round(statistics.median(times) * 1000, 1) if times else None
    return Kind(service, method, resource, len(requests), errors, median, absent)


def to_json(cycle: Cycle) -> str:
    """The record as a JSON document, as `from_json` reads it."""
    return json.dumps(dataclasses.asdict(cycle), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Cycle:
    """Read a record.

    Raises:
        RehearsalError: it is no JSON, or a key is unknown, missing or of the wrong type.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RehearsalError(f"the record is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise RehearsalError(f"the record: {data!r:.60} is not an object")
    reading = fields.read(Cycle, data)
    if reading.problems:
        raise RehearsalError("the record: " + "; ".join(reading.problems))
    return reading.value
