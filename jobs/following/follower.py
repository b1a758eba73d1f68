"""Follows one job until it has ended: its states in words, and the lines of its processes.

What it asks may fail for a while, by a cut network or a service that is busy: the job goes on, so
it asks again. Only an answer that no waiting changes ends it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from common.errors import UserError
from jobs.azure.clusters import queue_reasons
from jobs.azure.job_records import ENDED, Details, Job, Jobs
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.following import job_states
from jobs.following.log_stream import LogLine, LogStream
from jobs.retry import AzureRetry

POLL_SECONDS: Final = 5.0
RETRY_TIMEOUT_SECONDS: Final = 3600.0
MAX_REFUSALS: Final = 3
"""Refusals in a row after which a log counts as one that cannot be read."""


@dataclass(frozen=True)
class FollowSettings:
    """How a job is followed."""

    ranks: Callable[[int], bool] = lambda rank: rank == 0
    """Whose lines are shown."""
    labelled: bool = False
    """Whether each line says whose it is."""
    poll_seconds: float = POLL_SECONDS
    retry_timeout_seconds: float = RETRY_TIMEOUT_SECONDS
    """Longest continuous outage of Azure to tolerate."""

    def retry(self, console: Console) -> AzureRetry:
        """Repeats questions about one run."""
        return AzureRetry(self.retry_timeout_seconds, console.note, self.poll_seconds)


class Follower:
    """One job, followed once.

    Args:
        jobs: of the workspace.
        manager: of the workspace, for why a job is still queued.
        job: to follow.
        console: is told its states.
        settings: how it is followed.
        retry: shared with others who ask about the same run.
        show: takes the lines of the processes; None prints them for a person.
    """

    def __init__(
        self,
        jobs: Jobs,
        manager: ResourceManager,
        job: Job,
        console: Console,
        settings: FollowSettings,
        retry: AzureRetry,
        show: Callable[[LogLine], None] | None = None,
    ) -> None:
        self._jobs, self._manager, self._job = jobs, manager, job
        self._console, self._settings, self._retry = console, settings, retry
        self._show = show or self._print
        self._log = LogStream(jobs.read_log, settings.ranks)
        self._state: str | None = None
        self._queued_at = 0.0
        self._hints = 0
        self._refusals = 0

    def follow(self) -> Details:
        """Until the job has ended.

        Raises:
            RequestError: Azure refuses to tell, or was out of reach for too long.
        """
        while True:
            details = self._retry.call(self._ask)
            ended = details.status in ENDED
            if not ended:
                self._tell(details.status)
            for line in self._log.more(details.logs):
                self._show(line)
            self._tell_refused()
            if ended:
                for line in self._log.rest():
                    self._show(line)
                # Its last lines come before its end, as they were written before it.
                self._tell(details.status)
                return details
            time.sleep(self._settings.poll_seconds)

    def _ask(self) -> Details:
        try:
            return self._jobs.details(self._job.name)
        except MissingError:
            # The run history learns of a job a moment after Resource Manager does.
            job = self._jobs.get(self._job.name)
            if job is None:
                raise
            return Details(job.status)

    def _tell(self, status: str) -> None:
        before, self._state = self._state, status
        if status != before:
            text = job_states.words(status, self._job.nodes, self._job.cluster)
            if before is not None and job_states.restarted(before, status):
                text += "; Azure begins it anew, and it goes on from its newest checkpoint"
            self._console.say(f"{self._job.name}: {text}{self._since(status)}")
            self._queued_at, self._hints = time.monotonic(), 0
        if status == "Queued":
            self._hint()

    def _since(self, status: str) -> str:
        created = self._job.created
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
            reasons = queue_reasons(self._manager, self._job)
        except RequestError as error:
            reasons = [f"its cluster cannot be looked at: {str(error).splitlines()[0]}"]
        self._console.say(f"{self._job.name}: still queued after {waited / 60:.0f} minutes")
        for reason in reasons:
            self._console.say(f"  {reason}")

    def _print(self, line: LogLine) -> None:
        label = f"[{line.rank}] " if self._settings.labelled else ""
        self._console.say(f"{label}{line.text}")

    def _tell_refused(self) -> None:
        """Say once that the log cannot be read; an address that has run out is refused only
        once.
        """
        self._refusals = self._refusals + 1 if self._log.refused else 0
        if self._refusals == MAX_REFUSALS:
            text = f"{self._job.name}: its log cannot be read from here: {self._log.refused}"
            self._console.note(text)


def show_ranks(settings: FollowSettings, text: str) -> FollowSettings:
    """The same for the ranks that a person names: all, or numbers with commas between them.

    Raises:
        UserError: the text is neither.
    """
    if text == "all":
        return replace(settings, ranks=lambda _: True, labelled=True)
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise UserError(f"--rank: {text!r} must be all, or numbers such as 0 or 0,8")
    numbers = {int(part) for part in parts}
    return replace(settings, ranks=lambda rank: rank in numbers, labelled=len(numbers) > 1)
