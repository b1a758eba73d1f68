"""Jobs of a workspace as plain data, and the requests that read and change them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.azure.requests import segment, well_formed
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.run_history import RunHistory
from jobs.errors import MissingError
from jobs.leaf import MOVED
from jobs.spec.run_key import MAX_ATTEMPTS, RunAttempt, attempt_of, key_problems
from trainer.errors import EXIT_STATUS_TAG, STOP_STATUSES

ENDED: Final = ("Completed", "Failed", "Canceled")
"""Final states of a job. NotResponding is not one: a job without heartbeat may still train."""

CANCELED_BY: Final = "canceled_by"
"""Tag of a job that a user has cancelled with this project; its supervisors stop."""

RESUBMITTED: Final = "resubmitted"
"""Tag of an attempt that a supervisor, not a user, has submitted."""

_UNSTARTED: Final = ("NotStarted", "Queued")
"""States of a job that has no nodes yet."""
_OLDER: Final = 100
_GAP: Final = 2
"""Numbers without a job after which a run has no further attempts."""
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_STATUS: Final = re.compile(r"exit(?:ed with)?(?: status)? code:?\s*(-?\d+)", re.IGNORECASE)
"""Exit status in Azure's messages. Users quote them as `Execution failed. User process 'python'
exited with status code 4.`"""


@dataclass(frozen=True)
class Job:
    """A job as the workspace lists it."""

    name: str
    status: str
    cluster: str
    """Name of the job's cluster; empty if it has none."""
    nodes: int
    created: datetime | None
    timeout_seconds: float | None
    tags: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    """The job's `properties` in Azure's response."""

    @property
    def attempt(self) -> RunAttempt | None:
        """Attempt of a run that this job is; None for a job that another program submitted."""
        return attempt_of(self.name) if "run" in self.tags else None

    @property
    def run(self) -> str:
        """Key of the job's run; the job's own name if it belongs to no run."""
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
    def reported_status(self) -> str | None:
        """Exit status that the trainer has reported, `RUNNING` while it has not ended by itself, or
        None if it has reported nothing.
        """
        return self.tags.get(EXIT_STATUS_TAG)

    @property
    def page(self) -> str | None:
        """URL of the job's page in Azure ML studio, or None."""
        studio = (self.body.get("services") or {}).get("Studio") or {}
        address = studio.get("endpoint")
        return str(address) if address else None


@dataclass(frozen=True)
class Details:
    """A job as the run history describes it."""

    status: str
    started: datetime | None = None
    ended: datetime | None = None
    messages: tuple[str, ...] = ()
    """Messages of the job's error, innermost last, and of its warnings."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """URLs of the job's log files by name; each contains a signature that grants reading."""


class Jobs:
    """The jobs of one workspace.

    Args:
        manager: Resource Manager, for the jobs as they were submitted.
        history: Run history, for their states, errors and logs.
    """

    def __init__(self, manager: ResourceManager, history: RunHistory) -> None:
        self._manager, self._history = manager, history

    def find(self, name: str) -> Job:
        """Find a job by its name, or the newest attempt of a run by its key.

        Raises:
            MissingError: There is neither.
        """
        if attempt_of(name) is None:
            attempts = self.attempts(name)
            if attempts:
                return attempts[-1]
        job = self.get(name) or self._listed(name)
        if job is None:
            raise MissingError(
                f"{name}: there is no job or run of this name in workspace"
                f" {self._manager.workspace}; `python -m jobs status` shows the runs"
            )
        return job

    def get(self, name: str) -> Job | None:
        """Look up a job by its name; None if there is none.

        Raises:
            MissingError: The workspace does not exist.
        """
        job = self._get(name)
        if job is None:
            self._manager.check_workspace()
        return job

    def attempts(self, run: str) -> tuple[Job, ...]:
        """Return all attempts of a run, oldest first. They are numbered without gaps, but one may
        have been deleted in the studio.
        """
        if key_problems(run):
            return ()
        attempt = RunAttempt(run)
        job = self.get(attempt.name)
        jobs: list[Job] = []
        missing = 0
        while True:
            if job is not None:
                jobs.append(job)
            missing = 0 if job is not None else missing + 1
            if missing == _GAP or attempt.number == MAX_ATTEMPTS:
                return tuple(jobs)
            attempt = attempt.following()
            job = self._get(attempt.name)

    def _listed(self, run: str) -> Job | None:
        """Look for the newest attempt of a run whose first ones were deleted; None if there is
        none.
        """
        if key_problems(run):
            return None
        own = by_run(self.newest_first(archived=True, tag="run")).get(run)
        return own[-1] if own else None

    def newest_first(self, *, archived: bool = False, tag: str | None = None) -> Iterator[Job]:
        """Iterate over all jobs in Azure's order: newest first, though Azure does not document it.

        Args:
            archived: Whether to include archived jobs.
            tag: Tag that the jobs must have; None is any job.
        """
        view = "All" if archived else "ActiveOnly"
        query = f"jobs?listViewType={view}" + (f"&tag={segment(tag)}" if tag else "")
        return map(read_job, self._manager.items(query))

    def running(self, cluster: str | None = None) -> list[str]:
        """Return the names of the jobs that have not ended.

        Args:
            cluster: Cluster that the jobs run on or wait for; None is any.
        """
        try:
            return [
                job.name
                for job in self.newest_first(archived=True)
                if not job.ended and (cluster is None or job.cluster.lower() == cluster.lower())
            ]
        except MissingError:
            return []

    def details(self, name: str) -> Details:
        """Read a job's details from the run history."""
        return read_details(self._history.details(name))

    def services(self, name: str, node: int) -> dict[str, Any]:
        """Return the services that a job offers on a node, by name, each as Azure shows it."""
        return {
            service: {
                **facts,
                "endpoint": (facts.get("endpoint") or "").replace("<nodeIndex>", str(node)),
            }
            for service, facts in self._history.services(name, node).items()
        }

    def read_log(self, address: str, offset: int) -> bytes | None:
        """Read a part of a log file; see `RunHistory.read_log`."""
        return self._history.read_log(address, offset)

    def put(self, name: str, properties: Mapping[str, Any]) -> Job:
        """Submit a job, or change the tags of an existing one.

        Args:
            name: Name of the job.
            properties: Properties from `jobs.azure.job_body`.
        """
        return read_job(self._manager.put(f"jobs/{segment(name)}", {"properties": properties}))

    def tag(self, job: Job, tags: dict[str, str]) -> None:
        """Add tags through the run history; see `RunHistory.tag`."""
        self._history.tag(str(job.body.get("experimentName") or "Default"), job.name, tags)

    def cancel(self, name: str) -> None:
        """Request the cancellation of a job."""
        self._manager.post(f"jobs/{segment(name)}/cancel")

    def user(self) -> str | None:
        """Return the name of the signed-in user, or None."""
        return self._manager.user()

    def _get(self, name: str) -> Job | None:
        resource = self._manager.find(f"jobs/{segment(name)}")
        return None if resource is None else read_job(resource)


@well_formed("a job")
def read_job(data: Mapping[str, Any]) -> Job:
    """Parse Resource Manager's response for a job."""
    body = data["properties"]
    limits, resources = body.get("limits") or {}, body.get("resources") or {}
    timeout = limits.get("timeout")
    return Job(
        name=data["name"],
        status=_word(body.get("status")),
        cluster=(body.get("computeId") or "").rsplit("/", 1)[-1],
        nodes=int(resources.get("instanceCount") or 1),
        created=parse_time((data.get("systemData") or {}).get("createdAt")),
        timeout_seconds=None if timeout is None else duration_seconds(timeout),
        tags={
            key: str(value) for key, value in (body.get("tags") or {}).items() if value is not None
        },
        body=body,
    )


def by_run(jobs: Iterable[Job]) -> dict[str, list[Job]]:
    """Return the attempts of each run among some jobs, oldest first. Pure."""
    runs: dict[str, list[Job]] = {}
    for job in jobs:
        if job.attempt is not None:
            runs.setdefault(job.run, []).append(job)
    for own in runs.values():
        own.sort(key=lambda job: job.attempt.number if job.attempt else 0)
    return runs


def listed_details(job: Job) -> Details | None:
    """Return the times of a job that its resource tells, so that the run history need not be asked;
    None if it does not tell them, or if only Azure's messages say how the job has ended.
    """
    own = job.body.get("properties") or {}
    started, ended = (parse_time(own.get(f"{name}TimeUtc")) for name in ("Start", "End"))
    if job.status in _UNSTARTED and started is None:
        return Details(job.status)
    explained = job.status == "Completed" or job.canceled_by_us
    known = started is not None and (ended is not None if job.ended else job.status == "Running")
    return Details(job.status, started, ended) if known and (explained or not job.ended) else None


def recent(jobs: Iterable[Job], now: Callable[[], datetime], days: float) -> Iterator[Job]:
    """Iterate over the jobs of the last days, of jobs that come newest first.

    Azure does not document that order, so this reads on until `_OLDER` older jobs have come in a
    row. A job whose time is unknown counts as new.

    Args:
        jobs: Jobs as Azure lists them.
        now: Returns the time, asked after the first response, which has Azure's.
        days: Number of days.
    """
    older = 0
    for job in jobs:
        if job.created is None or job.created >= now() - timedelta(days=days):
            older = 0
            yield job
        elif (older := older + 1) == _OLDER:
            return


@well_formed("the run of a job")
def read_details(data: Mapping[str, Any]) -> Details:
    """Parse the run history's response for a job."""
    texts = dict.fromkeys(_texts(data.get("error")))
    for warning in data.get("warnings") or []:
        texts |= dict.fromkeys(_texts(warning))
    return Details(
        status=_word(data["status"]),
        started=parse_time(data.get("startTimeUtc")),
        ended=parse_time(data.get("endTimeUtc")),
        messages=tuple(texts),
        logs=dict(data.get("logFiles") or {}),
    )


def exit_status(job: Job, details: Details) -> int | None:
    """Return the program's exit status from Azure's messages, or else from its own report."""
    reported = job.reported_status or ""
    return exit_code(details.messages) or (int(reported) if reported.isdecimal() else None)


def move(job: Job, details: Details) -> str:
    """Return the tag `MOVED` of an attempt that was ended to run elsewhere; "" for any other."""
    status = details.status if details.status in ENDED else job.status
    # The tag stays if the request to end the attempt has failed.
    ended = status == "Canceled" or exit_status(job, details) in STOP_STATUSES
    return job.tags.get(MOVED, "") if ended else ""


def exit_code(messages: tuple[str, ...]) -> int | None:
    """Find the program's exit status in Azure's messages; None if they have none."""
    matches = (_STATUS.search(text) for text in messages)
    return next((int(match[1]) for match in matches if match), None)


def duration_seconds(text: str) -> float | None:
    """Parse an ISO 8601 duration of days and smaller units, such as P7D or PT6H30M; None for any
    other text.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_time(text: str | None) -> datetime | None:
    """Parse an Azure timestamp: up to seven fractional digits, time zone optional."""
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


def _word(status: Any) -> str:
    """Return a state.

    Raises:
        TypeError: It is not a text.
    """
    if status is not None and not isinstance(status, str):
        raise TypeError(f"the status is {status!r}")
    return status or "Unknown"


def _texts(node: Any) -> Iterator[str]:
    """Find the codes and messages anywhere in an error, outermost first."""
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
