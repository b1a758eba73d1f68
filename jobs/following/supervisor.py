"""Follows a run through its attempts: what was taken away is submitted again, by the rules of
`jobs.following.resubmit_policy`.

It keeps nothing but what the workspace knows, so it can be ended, begun again and run twice.
"""

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from common.errors import UserError
from infra.outputs import Cluster
from jobs.azure import job_records
from jobs.azure.job_records import Details, Job, ending
from jobs.azure.results import TRAINING, trained
from jobs.azure.submission import submit_again
from jobs.azure.workspace import Workspace
from jobs.console import Console, command
from jobs.errors import RequestError
from jobs.following.follower import Follower, Manner
from jobs.following.log_stream import LONGEST, fetcher, wanted
from jobs.following.resubmit_policy import INTERRUPTED, Ending, Resubmit, Stop, decide
from jobs.options import ResubmitOptions
from jobs.retry import Outage

LAST_LINES: Final = 30
LOOK_SECONDS: Final = 5.0
"""Between two looks at a run while the pause before its next attempt lasts."""


@dataclass(frozen=True)
class Outcome:
    """How following a run has ended."""

    job: Job
    """The last attempt that was followed."""
    status: str
    """Of that attempt."""
    exit_code: int
    reason: str
    attempts: int

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "run": self.job.run,
            "job": self.job.name,
            "status": self.status,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "attempts": self.attempts,
            "page": self.job.page,
        }


@dataclass
class Supervisor:
    """One run, followed to its end."""

    workspace: Workspace
    console: Console
    manner: Manner
    resubmit: ResubmitOptions
    again: bool
    """Whether to submit again what was taken away; else only to say so."""
    waiting: bool = field(default=False, init=False)
    """Whether the last attempt has ended, so that nothing of the run goes on by itself."""

    def __post_init__(self) -> None:
        manner = self.manner
        self._outage = Outage(self.console, manner.patience_seconds, manner.poll_seconds)

    def follow(self, job: Job) -> Outcome:
        """From one attempt to the end of the run.

        Raises:
            RequestError: Azure refuses to tell, or was out of reach for too long.
        """
        while True:
            self.waiting = False
            details = Follower(
                self.workspace, job, self.console, self.manner, self._outage
            ).follow()
            self.waiting = True
            history = self._history(job, details)
            decision = self._decide(job, history)
            if isinstance(decision, Stop):
                return self._stopped(job, details, decision, len(history))
            if not self.again:
                reason = (
                    f"{decision.reason.split(';')[0]};"
                    f" `{command('follow', job.run, '--supervise')}` submits it again"
                )
                return Outcome(job, details.status, INTERRUPTED, reason, len(history))
            following = self._next(job, decision)
            if following is None:
                history = self._history(self._fresh(job), details)
                stop = self._decide(job, history)
                assert isinstance(stop, Stop)
                return self._stopped(job, details, stop, len(history))
            job = following

    def _history(self, job: Job, details: Details) -> list[Ending]:
        """Endings of all attempts up to this one, which has just ended.

        Whether a run is trained only matters for the last one.
        """
        found = []
        attempt = job.attempt
        if attempt is not None:
            tried = self._outage.ask(lambda: job_records.attempts(self.workspace, job.run))
            for earlier in tried[: attempt.number - 1]:
                known = self._outage.ask(partial(job_records.details, self.workspace, earlier.name))
                found.append(ending(earlier, known, trained=None))
        trains = job.kind in TRAINING and attempt is not None
        looked = self._trained(job, details) if trains else None
        return [*found, ending(self._fresh(job), details, trained=looked, trains=trains)]

    def _decide(self, job: Job, history: list[Ending]) -> Resubmit | Stop:
        if job.attempt is None:
            # What another program submitted has no further attempts.
            return decide(history, ResubmitOptions(attempts=1), self._cluster(job))
        return decide(history, self.resubmit, self._cluster(job))

    def _next(self, job: Job, decision: Resubmit) -> Job | None:
        """The next attempt, after the pause; none if a person has cancelled the run in it."""
        self.console.say(f"{job.run}: {decision.reason}, in {decision.delay:.0f} s")
        until = time.monotonic() + decision.delay
        while True:
            if self._fresh(job).canceled_by_us:
                return None
            left = until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, LOOK_SECONDS))
        following, by_us = self._outage.ask(
            lambda: submit_again(self.workspace, job), despite_refusal=False
        )
        self.console.say(
            f"{following.name}: submitted"
            if by_us
            else f"{following.name}: is there already, submitted by someone else who supervises"
        )
        return following

    def _fresh(self, job: Job) -> Job:
        return self._outage.ask(lambda: job_records.job(self.workspace, job.name)) or job

    def _trained(self, job: Job, details: Details) -> bool | None:
        try:
            return self._outage.ask(
                lambda: trained(self.workspace, job, details), despite_refusal=False
            )
        except RequestError as error:
            self.console.note(f"{job.run}: its result cannot be looked at from here: {error}")
            return None

    def _stopped(self, job: Job, details: Details, stop: Stop, count: int) -> Outcome:
        if stop.show_log:
            for line in last_lines(self.workspace, details):
                self.console.note(line)
        if details.status == "Failed":
            for message in details.messages:
                self.console.note(f"Azure: {message}")
        return Outcome(job, details.status, stop.exit_code, stop.reason, count)

    def _cluster(self, job: Job) -> Cluster:
        """Where it ran; the pre-emptible one for a cluster that the stack does not name."""
        clusters = self.workspace.outputs.clusters
        known = (clusters.gpu, clusters.preparation, clusters.build, clusters.gpu_dedicated)
        return next((one for one in known if one and one.name == job.cluster), clusters.gpu)


def last_lines(workspace: Workspace, details: Details) -> list[str]:
    """The end of the log that Azure's messages name, or of rank 0."""
    files = wanted(details.logs, lambda _: True)
    if not files:
        return []
    named = [name for name, _ in files if any(name in text for text in details.messages)]
    name = named[0] if named else files[0][0]
    fetch, text = fetcher(workspace), b""
    try:
        offset = 0
        while part := fetch(details.logs[name], offset):
            offset += len(part)
            text = (text + part)[-LONGEST:]
    except UserError as error:
        return [f"{name}: cannot be read from here: {error}"]
    lines = text.decode(errors="replace").splitlines()[-LAST_LINES:]
    return [f"the last lines of {name}:", *(f"  {line}" for line in lines)]
