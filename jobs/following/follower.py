"""Follows one job until it has ended: its states in words, and the lines of its processes.

What it asks may fail for a while, by a cut network or a service that is busy: the job goes on, so
it asks again. Only an answer that no waiting changes ends it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from common.errors import UserError
from jobs.azure import clusters, job_records
from jobs.azure.job_records import ENDED, Details, Job
from jobs.azure.workspace import Workspace, segment
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.following import job_states
from jobs.following.log_stream import Line, Logs, fetcher
from jobs.retry import Outage

POLL_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 3600.0
UNREAD: Final = 3
"""Refusals in a row after which a log counts as one that cannot be read."""


@dataclass(frozen=True)
class Manner:
    """How a job is followed."""

    ranks: Callable[[int], bool] = lambda rank: rank == 0
    """Whose lines are shown."""
    named: bool = False
    """Whether each line says whose it is."""
    poll_seconds: float = POLL_SECONDS
    patience_seconds: float = PATIENCE_SECONDS
    """That Azure may be out of reach in one piece."""


@dataclass
class Follower:
    """One job, followed once."""

    workspace: Workspace
    job: Job
    console: Console
    manner: Manner = field(default_factory=Manner)
    outage: Outage | None = None
    """Shared with others who ask about the same run."""
    show: Callable[[Line], None] | None = None
    """Takes the lines of the processes; a person reads them if none."""

    def __post_init__(self) -> None:
        self._logs = Logs(fetcher(self.workspace), self.manner.ranks)
        self._state: str | None = None
        self._queued_at = 0.0
        self._hints = 0
        self._refusals = 0
        self._outage = self.outage or Outage(
            self.console, self.manner.patience_seconds, self.manner.poll_seconds
        )
        self._take = self.show or self._print

    def follow(self) -> Details:
        """Until the job has ended.

        Raises:
            RequestError: Azure refuses to tell, or was out of reach for too long.
        """
        while True:
            details = self._details()
            if details is not None:
                ended = details.status in ENDED
                if not ended:
                    self._tell(details.status)
                for line in self._logs.more(details.logs):
                    self._take(line)
                self._tell_unread()
                if ended:
                    for line in self._logs.rest():
                        self._take(line)
                    # Its last lines come before its end, as they were written before it.
                    self._tell(details.status)
                    return details
            time.sleep(self.manner.poll_seconds)

    def _details(self) -> Details | None:
        """What is known now; none if nothing could be learned."""
        try:
            found = self._ask()
        except RequestError as error:
            self._outage.lost(error)
            return None
        self._outage.answered()
        return found

    def _ask(self) -> Details:
        name = self.job.name
        try:
            return job_records.details(self.workspace, name)
        except MissingError:
            # The run history learns of a job a moment after Resource Manager does.
            found = job_records.job(self.workspace, name)
            if found is None:
                raise
            return Details(found.status)

    def _tell(self, status: str) -> None:
        before, self._state = self._state, status
        if status != before:
            text = job_states.words(status, self.job.nodes, self.job.cluster)
            if before is not None and job_states.restarted(before, status):
                text += "; Azure begins it anew, and it goes on from its newest checkpoint"
            self.console.say(f"{self.job.name}: {text}{self._since(status)}")
            self._queued_at, self._hints = time.monotonic(), 0
        if status == "Queued":
            self._hint()

    def _since(self, status: str) -> str:
        created = self.job.created
        if status != "Queued" or created is None:
            return ""
        waited = (datetime.now(UTC) - created).total_seconds()
        return f" (since {created:%H:%M} UTC)" if waited > 60 else ""

    def _hint(self) -> None:
        waited = time.monotonic() - self._queued_at
        if not job_states.hint_due(waited, self._hints):
            return
        self._hints += 1
        try:
            lines = queue_hints(self.workspace, self.job)
        except RequestError as error:
            lines = [f"its cluster cannot be looked at: {_head(error)}"]
        self.console.say(f"{self.job.name}: still queued after {waited / 60:.0f} minutes")
        for line in lines:
            self.console.say(f"  {line}")

    def _print(self, line: Line) -> None:
        named = f"[{line.rank}] " if self.manner.named else ""
        self.console.say(f"{named}{line.text}")

    def _tell_unread(self) -> None:
        """Say once that the log cannot be read; an address that has run out is refused only
        once.
        """
        self._refusals = self._refusals + 1 if self._logs.refused else 0
        if self._refusals == UNREAD:
            text = f"{self.job.name}: its log cannot be read from here: {self._logs.refused}"
            self.console.note(text)


def queue_hints(workspace: Workspace, job: Job) -> list[str]:
    """Why a job may still be queued, by what Azure tells of its cluster and of cores."""
    nodes = job_states.read_nodes(workspace.arm("GET", f"computes/{segment(job.cluster)}"))
    return job_states.queue_hints(
        job.nodes, nodes, quota_problems(workspace, nodes, job.nodes) or []
    )


def quota_problems(workspace: Workspace, nodes: job_states.Nodes, wanted: int) -> list[str] | None:
    """What the subscription's cores keep a cluster from; none if Azure does not tell."""
    outputs = workspace.outputs
    place = (
        f"/subscriptions/{outputs.subscription_id}/providers/Microsoft.MachineLearningServices"
        f"/locations/{outputs.region}"
    )
    try:
        sizes = clusters.read_sizes(workspace.arm("GET", f"{place}/vmSizes"))
        usages = list(workspace.arm_list(f"{place}/usages"))
    except RequestError:
        # A region whose list cannot be read is no reason why a job waits.
        return None
    size = sizes.get(nodes.size.lower())
    if size is None or not size.cores:
        return None
    found = clusters.find_quota(usages, nodes.priority, size.family)
    return clusters.missing(found, size, wanted, nodes.allocated, nodes.priority)


def ranks_manner(text: str, manner: Manner) -> Manner:
    """The same for the ranks that a person names: all, or numbers with commas between them.

    Raises:
        UserError: the text is neither.
    """
    if text == "all":
        return replace(manner, ranks=lambda _: True, named=True)
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise UserError(f"--rank: {text!r} must be all, or numbers such as 0 or 0,8")
    numbers = {int(part) for part in parts}
    return replace(manner, ranks=lambda rank: rank in numbers, named=len(numbers) > 1)


def _head(error: UserError) -> str:
    return str(error).splitlines()[0]
