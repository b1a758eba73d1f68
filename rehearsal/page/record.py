"""The record of a rehearsal: the contract between the runner and the page. Pure.

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
    """Result of one step of the cycle."""

    name: str
    """Short, unique name, such as `up`."""
    title: str
    """Title for people, such as Deploy the dev stack."""
    command: str
    """Command as a user would type it; may be empty."""
    began: float
    seconds: float
    """Duration of the step; 0 if it was skipped."""
    outcome: StepOutcome
    lines: tuple[str, ...] = ()
    """Findings, such as `118 created`; the problem, if the step failed."""
    place: str | None = None
    """File or folder with more about a failure."""


@dataclass(frozen=True)
class Attempt:
    """One job of a run: the first, or a resubmitted one."""

    job: str
    cluster: str
    nodes: int
    ranks: int
    began: float
    ended: float | None
    """End of the job; None if it was still running when the cycle ended."""
    status: str
    """Azure's status, such as Completed or Failed."""
    reason: str = ""
    """Reason for the end, such as Azure's message; may be empty."""
    first_step: int | None = None
    """First training step of this attempt; 1 if it started over."""
    last_step: int | None = None


@dataclass(frozen=True)
class NodePool:
    """The nodes of a cluster over time."""

    cluster: str
    size: str
    """Virtual machine size, such as Standard_ND40rs_v2."""
    priority: str
    """Azure's priority: LowPriority, which is Spot, or Dedicated."""
    samples: tuple[tuple[float, int], ...]
    """Times, each with the number of nodes allocated from then on; the oldest first."""


@dataclass(frozen=True)
class Link:
    """A file or folder that the cycle has written."""

    title: str
    target: str
    """Path relative to the page."""


@dataclass(frozen=True)
class Cycle:
    """One rehearsal of the whole cycle, complete or not."""

    title: str
    began: float
    seconds: float
    machine: str
    """Description of the machine, such as `Linux, 2 cores`."""
    engine_version: str
    """Version of Pulumi's engine."""
    versions: tuple[tuple[str, str], ...] = ()
    """Names and versions of other software, such as ("azure-ai-ml", "1.35.2")."""
    steps: tuple[StepResult, ...] = ()
    """Steps in the order of the cycle; those after a failure are skipped."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts of the training, the oldest first."""
    pools: tuple[NodePool, ...] = ()
    kinds: tuple[RequestKind, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def failed(self) -> StepResult | None:
        """The first step that failed; None if none did."""
        return next((step for step in self.steps if step.outcome == "failed"), None)


def to_json(cycle: Cycle) -> str:
    """Return the record as a JSON document that `from_json` reads."""
    return json.dumps(dataclasses.asdict(cycle), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Cycle:
    """Read a record.

    Raises:
        RehearsalError: the text is not JSON, or a key is unknown, missing or of the wrong type.
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
