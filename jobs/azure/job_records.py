"""What Azure ML tells of a job, as plain data: from its answers' JSON. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from jobs.azure.workspace import Workspace, segment
from jobs.errors import MissingError
from jobs.following.resubmit_policy import Ending, Status
from jobs.spec.run_key import Attempt, attempt_of, key_problems

ENDED: Final = ("Completed", "Failed", "Canceled")
"""NotResponding is none of them: a job without heartbeat may still train."""

CANCELED_BY: Final = "canceled_by"
"""Tag of a job that a person has cancelled by this project: those who supervise it stop."""

RESUBMITTED: Final = "resubmitted"
"""Tag of an attempt that who supervises has submitted, and not a person."""

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_STATUS: Final = re.compile(r"exit(?:ed with)?(?: status)? code:?\s*(-?\d+)", re.IGNORECASE)
"""`Execution failed. User process 'python' exited with status code 4.` is how users quote it."""


@dataclass(frozen=True)
class Job:
    """A job as the workspace lists it."""

    name: str
    status: str
    cluster: str
    """Name of its compute; empty if it has none."""
    nodes: int
    created: datetime | None
    timeout_seconds: float | None
    tags: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    """Its `properties`, as Azure answers."""

    @property
    def attempt(self) -> Attempt | None:
        """Which attempt of a run it is; none for a job that another program submitted."""
        return attempt_of(self.name) if "run" in self.tags else None

    @property
    def run(self) -> str:
        """Key of its run; its own name if it belongs to none."""
        attempt = self.attempt
        return attempt.run if attempt else self.name

    @property
    def kind(self) -> str:
        return self.tags.get("kind", "")

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def canceled_by_us(self) -> bool:
        return CANCELED_BY in self.tags

    @property
    def page(self) -> str | None:
        """Address of its page in the studio."""
        studio = (self.body.get("services") or {}).get("Studio") or {}
        address = studio.get("endpoint")
        return str(address) if address else None


@dataclass(frozen=True)
class Details:
    """What the run history knows of a job."""

    status: str
    started: datetime | None = None
    ended: datetime | None = None
    messages: tuple[str, ...] = ()
    """Of its error, innermost last, and its warnings."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """Addresses of its log files by name; each holds a signature that grants reading."""


def read_job(data: Mapping[str, Any]) -> Job:
    """A job of Resource Manager's answer."""
    body = data["properties"]
    limits, resources = body.get("limits") or {}, body.get("resources") or {}
    timeout = limits.get("timeout")
    return Job(
        name=data["name"],
        status=body.get("status") or "Unknown",
        cluster=(body.get("computeId") or "").rsplit("/", 1)[-1],
        nodes=int(resources.get("instanceCount") or 1),
        created=when((data.get("systemData") or {}).get("createdAt")),
        timeout_seconds=None if timeout is None else duration_seconds(timeout),
        tags={key: str(value) for key, value in (body.get("tags") or {}).items()},
        body=body,
    )


def read_details(data: Mapping[str, Any]) -> Details:
    """The run history's answer for a job."""
    texts = dict.fromkeys(_texts(data.get("error")))
    for warning in data.get("warnings") or []:
        texts |= dict.fromkeys(_texts(warning))
    return Details(
        status=data.get("status") or "Unknown",
        started=when(data.get("startTimeUtc")),
        ended=when(data.get("endTimeUtc")),
        messages=tuple(texts),
        logs=dict(data.get("logFiles") or {}),
    )


def ending(job: Job, details: Details, *, trained: bool | None, trains: bool = True) -> Ending:
    """How a job ended, for `jobs.following.resubmit_policy.decide`.

    Args:
        job: has ended.
        details: of the same job.
        trained: whether the result of its run is there; none where nobody could look.
        trains: whether it is a training.
    """
    seconds = 0.0
    if details.started and details.ended:
        seconds = max((details.ended - details.started).total_seconds(), 0.0)
    status = details.status if details.status in ENDED else job.status
    return Ending(
        status=cast("Status", status),
        seconds=seconds,
        timeout_seconds=job.timeout_seconds,
        messages=details.messages,
        exit_code=exit_code(details.messages),
        canceled_by_us=job.canceled_by_us,
        trained=trained,
        trains=trains,
        by_person=RESUBMITTED not in job.tags,
    )


def exit_code(messages: tuple[str, ...]) -> int | None:
    """Status of the program that Azure's messages tell; none if they tell none."""
    found = (_STATUS.search(text) for text in messages)
    return next((int(match[1]) for match in found if match), None)


def duration_seconds(text: str) -> float | None:
    """An ISO 8601 duration of days and less, such as P7D or PT6H30M; none for another text."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def when(text: str | None) -> datetime | None:
    """A time of Azure's, which may have seven decimals and no zone; none for none."""
    if not text:
        return None
    match = re.fullmatch(r"([^.Zz+]+)(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", text)
    if match is None:
        return None
    part = (match[2] or ".0")[:7]
    zone = match[3] if match[3] and match[3] not in "Zz" else "+00:00"
    try:
        return datetime.fromisoformat(f"{match[1]}{part.ljust(7, '0')}{zone}")
    except ValueError:
        return None


def _texts(node: Any) -> Iterator[str]:
    """Codes and messages anywhere inside an error, the outermost first."""
    if isinstance(node, Mapping):
        code, message = node.get("code"), node.get("message")
        if message:
            text = " ".join(str(message).split())
            yield f"{code}: {text}" if code and str(code) not in text else text
        elif isinstance(code, str):
            yield code
        for key in ("error", "innerError", "details"):
            yield from _texts(node.get(key))
    elif isinstance(node, list):
        for part in node:
            yield from _texts(part)
    elif isinstance(node, str) and node:
        yield node


MOST: Final = 99


def find(workspace: Workspace, name: str) -> Job:
    """A job by its name, or the newest attempt of a run by its key.

    Raises:
        MissingError: there is neither.
    """
    if attempt_of(name) is None:
        tried = attempts(workspace, name)
        if tried:
            return tried[-1]
    found = job(workspace, name)
    if found is None:
        raise MissingError(
            f"{name}: workspace {workspace.outputs.workspace} has no job and no run of this name;"
            " `python -m jobs list` shows those that it has"
        )
    return found


def attempts(workspace: Workspace, run: str) -> tuple[Job, ...]:
    """All attempts of a run, the first one first; they are numbered without a gap."""
    if key_problems(run):
        return ()
    attempt = Attempt(run)
    first = job(workspace, attempt.name)
    found = [] if first is None else [first]
    while len(found) == attempt.number < MOST:
        attempt = attempt.following()
        one = _asked(workspace, attempt.name)
        found += [] if one is None else [one]
    return tuple(found)


def job(workspace: Workspace, name: str) -> Job | None:
    """A job by its name; none if there is none.

    Raises:
        MissingError: it is the workspace that is not there.
    """
    found = _asked(workspace, name)
    if found is None:
        workspace.check()
    return found


def listed(workspace: Workspace) -> Iterator[Job]:
    """All jobs that are not archived, in Azure's order: the newest first, as far as is known."""
    for data in workspace.arm_list("jobs?listViewType=ActiveOnly"):
        yield read_job(data)


def details(workspace: Workspace, name: str) -> Details:
    """What the run history knows of a job."""
    return read_details(workspace.history("GET", f"runs/{segment(name)}/details"))


def _asked(workspace: Workspace, name: str) -> Job | None:
    try:
        return read_job(workspace.arm("GET", f"jobs/{segment(name)}"))
    except MissingError:
        return None
