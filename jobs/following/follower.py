"""Follow one job until it ends: print its states and the output of its processes.

Requests may fail for a while because of the network or a busy service, while the job continues, so
they are retried. Only an error that a retry cannot solve ends the following.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from common.errors import ConfigError
from jobs.azure.clusters import queue_reasons
from jobs.azure.job_records import ENDED, Details, Job, Jobs
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console, next_command
from jobs.errors import AccessError, MissingError, OddAnswerError, RequestError, UnreachableError
from jobs.following import job_states
from jobs.following.log_stream import LogLine, LogStream
from jobs.retry import AzureRetry

POLL_SECONDS: Final = 5.0
RETRY_TIMEOUT_SECONDS: Final = 3600.0
LAST_LINES_SECONDS = 60.0
"""Longest time in seconds to ask for the last lines of a job's log. It is short, as a run that was
interrupted waits for its next attempt."""
MAX_REFUSALS: Final = 3
"""Consecutive refused requests after which a log counts as unreadable, and a run as missing."""


@dataclass(frozen=True)
class FollowSettings:
    """How a job is followed."""

    ranks: Callable[[int], bool] = lambda rank: rank == 0
    """Selects the ranks whose output is shown."""
    labelled: bool = False
    """Whether each line is prefixed with its rank."""
    poll_seconds: float = POLL_SECONDS
    retry_timeout_seconds: float = RETRY_TIMEOUT_SECONDS
    """Longest continuous outage of Azure to tolerate, in seconds."""

    def retry(self, console: Console) -> AzureRetry:
        """Create the retries of requests about one run."""
        return AzureRetry(self.retry_timeout_seconds, console.note, self.poll_seconds)


@dataclass
class Follower:
    """Follows one job, once."""

    jobs: Jobs
    manager: ResourceManager
    """Tells why a job is still queued."""
    job: Job
    console: Console
    """Prints the states of the job."""
    settings: FollowSettings
    retry: AzureRetry
    """Retries of requests, shared with all that concern the same run."""
    show: Callable[[LogLine], None] | None = None
    """Receives the output lines of the processes; None prints them."""
    each: Callable[[], None] | None = None
    """Called at each look at the job."""

    def __post_init__(self) -> None:
        self._show = self.show or self._print
        self._log = LogStream(self.jobs.read_log, self.settings.ranks)
        self._state: str | None = None
        self._queued_at = 0.0
        self._hints = 0
        self._refusals = 0
        self._missing = 0
        self.alive_at: float | None = None
        """Time of `time.monotonic` at which the job was last seen not to have ended."""

    def follow(self) -> None:
        """Follow the job until it has ended and its last lines are shown.

        Raises:
            RequestError: Azure refused a request, or was unreachable for too long.
        """
        self.show_end(self.wait())

    def wait(self) -> Details:
        """Follow the job until it ends.

        Raises:
            RequestError: Azure refused a request, or was unreachable for too long.
        """
        while True:
            details = self.retry.call(self._ask)
            if details.status in ENDED:
                return details
            self.alive_at = time.monotonic()
            self._tell(details.status)
            self._read_log(details)
            self._tell_refused()
            if self.each is not None:
                self.each()
            time.sleep(self.settings.poll_seconds)

    def show_end(self, details: Details) -> None:
        """Show the last lines of the job, and then its final state."""
        self._show_last(details)
        self._tell(details.status)

    def _ask(self) -> Details:
        try:
            return self.jobs.details(self.job.name)
        except MissingError:
            # The run history lists a job a moment later than Resource Manager.
            job = self.jobs.get(self.job.name)
            if job is None:
                raise
            if job.ended and self._missing < MAX_REFUSALS:
                # Only the run history has the log and the reason of the end.
                self._missing += 1
                raise OddAnswerError(f"{self.job.name}: its run is not found") from None
            return Details(job.status)

    def _read_log(self, details: Details) -> None:
        for line in self._log.more(details.logs):
            self._show(line)

    def _show_last(self, details: Details) -> None:
        """Show the last lines; if they cannot be read, print how far the log was shown."""
        latest = details

        def read() -> None:
            nonlocal latest
            self._read_log(latest)
            error = self._log.refused or self._log.missing
            if error is not None:
                # The next attempt needs URLs that have not expired.
                latest = self._ask()
                raise UnreachableError(str(error)) if error is self._log.missing else error

        # Who was never allowed to read the log has been told.
        unless = (AccessError,) if self._refusals >= MAX_REFUSALS else ()
        try:
            self.retry.call(read, unless=unless, at_most=LAST_LINES_SECONDS)
        except RequestError as error:
            shown = [f"{name} up to byte {count:,}" for name, count in self._log.shown().items()]
            self.console.note(
                f"{self.job.name}: its last lines could not be read"
                f" ({str(error).splitlines()[0]}); shown:"
                f" {', '.join(shown) or 'nothing'}. `{next_command('logs', self.job.name)}` prints"
                " the whole log"
            )
        for line in self._log.rest():
            self._show(line)

    def _tell(self, status: str) -> None:
        before, self._state = self._state, status
        if status != before:
            text = job_states.words(status, self.job.nodes, self.job.cluster)
            if before is not None and job_states.restarted(before, status):
                text += f"; Azure restarted the job, {job_states.continues(self.job.kind)}"
            self.console.say(f"{self.job.name}: {text}{self._since(status)}")
            self._queued_at, self._hints = time.monotonic(), 0
        if status == "Queued":
            self._hint()
        if status == job_states.FINALIZING:
            self._tell_finalizing()

    def _since(self, status: str) -> str:
        created = self.job.created
        if status != "Queued" or created is None:
            return ""
        return job_states.since(created, self.manager.now())

    def _hint(self) -> None:
        waited = time.monotonic() - self._queued_at
        if not job_states.hint_due(waited, self._hints):
            return
        self._hints += 1
        try:
            reasons = queue_reasons(self.manager, self.job)
        except RequestError as error:
            reasons = [f"its cluster cannot be checked: {str(error).splitlines()[0]}"]
        self.console.say(f"{self.job.name}: still queued after {waited / 60:.0f} minutes")
        for reason in reasons:
            self.console.say(f"  {reason}")

    def _tell_finalizing(self) -> None:
        waited = time.monotonic() - self._queued_at
        if waited >= job_states.FINALIZING_SECONDS * (self._hints + 1):
            self._hints += 1
            self.console.say(f"{self.job.name}: {job_states.finalizing(self.job, waited)}")

    def _print(self, line: LogLine) -> None:
        label = f"[{line.rank}] " if self.settings.labelled else ""
        self.console.say(f"{label}{line.text}")

    def _tell_refused(self) -> None:
        """Print once that the log cannot be read. An expired URL does not count: it is refused only
        once.
        """
        self._refusals = self._refusals + 1 if self._log.refused else 0
        if self._refusals == MAX_REFUSALS:
            text = f"{self.job.name}: its log cannot be read from here: {self._log.refused}"
            self.console.note(text)


def show_ranks(settings: FollowSettings, text: str) -> FollowSettings:
    """Return the settings with the ranks of `--rank`: "all", or numbers separated by commas.

    Raises:
        ConfigError: The text is neither.
    """
    if text == "all":
        return replace(settings, ranks=lambda _: True, labelled=True)
    parts = text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise ConfigError([f"--rank: {text!r} must be all, or numbers such as 0 or 0,8"])
    numbers = {int(part) for part in parts}
    return replace(settings, ranks=lambda rank: rank in numbers, labelled=len(numbers) > 1)
