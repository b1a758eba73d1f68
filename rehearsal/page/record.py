"""What one rehearsal of the whole cycle did: the contract of its runner with its page. Pure.

Times are seconds since the epoch, durations are in seconds.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

from common import fields
from rehearsal.errors import RehearsalError
from rehearsal.page.request_kinds import RequestKind

StepOutcome: TypeAlias = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class StepResult:
    """What one step of the cycle did."""

    name: str
    """Short and unique, such as `up`."""
    title: str
    """For people, such as Deploy the dev stack."""
    command: str
    """As a person would give it; may be empty."""
    began: float
    seconds: float
    """0 if it was skipped."""
    outcome: StepOutcome
    lines: tuple[str, ...] = ()
    """What it found, such as `118 created`; what was wrong, if it failed."""
    place: str | None = None
    """File or folder with more about a failure."""


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
class NodePool:
    """The nodes of a cluster over time."""

    cluster: str
    size: str
    """Of the virtual machines, such as Standard_ND40rs_v2."""
    priority: str
    """In Azure's words: LowPriority or Dedicated."""
    samples: tuple[tuple[float, int], ...]
    """When, and how many nodes were allocated from then on; the oldest first."""


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
    steps: tuple[StepResult, ...] = ()
    """In the order of the cycle; what comes after a failure is skipped."""
    attempts: tuple[Attempt, ...] = ()
    """The oldest first."""
    pools: tuple[NodePool, ...] = ()
    kinds: tuple[RequestKind, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed, if one did."""
        return next((step for step in self.steps if step.outcome == "failed"), None)


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
        raise RehearsalError(f"the record is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RehearsalError(f"the record: {data!r:.60} is not an object")
    reading = fields.read(Cycle, data)
    if reading.problems:
        raise RehearsalError("the record: " + "; ".join(reading.problems))
    return reading.value
