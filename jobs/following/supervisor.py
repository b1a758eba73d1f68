"""Follow a run through its attempts, and submit it again if it was interrupted, by the rules of
`jobs.following.resubmit_policy`.

All state is in the workspace, so a supervisor can be stopped, restarted and run twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from common.waiting import wait_until
from infra.outputs import Cluster
from jobs.azure.job_records import ENDED, RESUBMITTED, Details, Job, Jobs, exit_code
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.results import TRAINING, is_trained
from jobs.azure.storage import Storage
from jobs.azure.submission import resubmit
from jobs.console import Console, next_command
from jobs.errors import AccessError, RequestError
from jobs.exit_status import NOT_RESUBMITTED
from jobs.following.follower import Follower, FollowSettings
from jobs.following.log_stream import last_lines
from jobs.following.resubmit_policy import AttemptResult, Resubmit, Status, Stop, decide
from jobs.options import ResubmitOptions

LAST_LINES: Final = 30
LOOK_SECONDS = 5.0
"""Seconds between two checks for a cancelled run during the pause before its next attempt."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended, or why it is no longer followed."""

    job: Job
    """The last attempt that was followed."""
    status: str
    """State of that attempt."""
    exit_code: int
    reason: str
    attempts: int

    def document(self) -> dict[str, Any]:
        """Return the result for JSON output."""
        return {
            "run": self.job.run,
            "job": self.job.name,
            "status": self.status,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "attempts": self.attempts,
            "page": self.job.page,
        }


class Supervisor:
    """Follows one run to its end.

    Args:
        jobs: Jobs of the workspace.
        manager: Resource Manager of the workspace.
        storage: Storage with the results of runs.
        clusters: Clusters of the stack.
        console: Prints what happens.
        settings: How each job is followed.
        options: When a run is submitted again.
        resubmits: Whether to submit an interrupted run again, or only to print how to do so.
    """

    def __init__(
        self,
        jobs: Jobs,
        manager: ResourceManager,
        storage: Storage,
        clusters: Mapping[str, Cluster],
        console: Console,
        settings: FollowSettings,
        options: ResubmitOptions,
        *,
        resubmits: bool,
    ) -> None:
        self._jobs, self._manager, self._storage = jobs, manager, storage
        self._clusters, self._settings, self._options = clusters, settings, options
        self._retry = settings.retry(console)
        self.console, self.resubmits = console, resubmits
        self.waiting = False
        """Whether the last attempt has ended, so that no job of the run is running."""

    def follow(self, job: Job) -> RunResult:
        """Follow a run from one attempt to its end.

        Raises:
            RequestError: Azure refused a request, or was unreachable for too long.
        """
        while True:
            self.waiting = False
            follower = Follower(
                self._jobs, self._manager, job, self.console, self._settings, self._retry
            )
            details = follower.follow()
            self.waiting = True
            history = self._history(job, details)
            decision = self._decide(job, history)
            if isinstance(decision, Stop):
                return self._stop(job, details, decision, len(history))
            if not self.resubmits:
                reason = (
                    f"{decision.reason.split(';')[0]};"
                    f" `{next_command('follow', job.run, '--supervise')}` submits it again"
                )
                return RunResult(job, details.status, NOT_RESUBMITTED, reason, len(history))
            following = self._next(job, decision)
            if following is None:
                history = self._history(self._fresh(job), details)
                stop = self._decide(job, history)
                assert isinstance(stop, Stop)
                return self._stop(job, details, stop, len(history))
            job = following

    def _history(self, job: Job, details: Details) -> list[AttemptResult]:
        """Return the results of all attempts up to this one, which has just ended.

        Whether the run is fully trained is only looked up for the last attempt.
        """
        results = []
        attempt = job.attempt
        if attempt is not None:
            attempts = self._retry.call(lambda: self._jobs.attempts(job.run))
            for earlier in attempts[: attempt.number - 1]:
                known = self._retry.call(partial(self._jobs.details, earlier.name))
                results.append(attempt_result(earlier, known, trained=None))
        trains = job.kind in TRAINING and attempt is not None
        trained = self._is_trained(job, details) if trains else None
        last = attempt_result(self._fresh(job), details, trained=trained, trains=trains)
        return [*results, last]

    def _decide(self, job: Job, history: list[AttemptResult]) -> Resubmit | Stop:
        # A job that another program submitted has no further attempts.
        options = ResubmitOptions(attempts=1) if job.attempt is None else self._options
        own = (one for one in self._clusters.values() if one.name.lower() == job.cluster.lower())
        return decide(history, options, next(own, None))

    def _next(self, job: Job, decision: Resubmit) -> Job | None:
        """Submit the next attempt after the pause; return None if the run was cancelled in it."""
        self.console.say(f"{job.run}: {decision.reason}, in {decision.delay:.0f} s")
        if wait_until(lambda: self._fresh(job).canceled_by_us, decision.delay, LOOK_SECONDS):
            return None
        # A missing role does not appear by waiting.
        following, by_us = self._retry.call(
            lambda: resubmit(self._jobs, job), unless=(AccessError,)
        )
        self.console.say(
            f"{following.name}: submitted"
            if by_us
            else f"{following.name}: was already submitted by another `follow --supervise`"
        )
        return following

    def _fresh(self, job: Job) -> Job:
        return self._retry.call(lambda: self._jobs.get(job.name)) or job

    def _is_trained(self, job: Job, details: Details) -> bool | None:
        try:
            return self._retry.call(
                lambda: is_trained(self._storage, job, details), unless=(AccessError,)
            )
        except RequestError as error:
            self.console.note(f"{job.run}: its result cannot be read from here: {error}")
            return None

    def _stop(self, job: Job, details: Details, stop: Stop, attempts: int) -> RunResult:
        if stop.show_log:
            for line in last_lines(self._jobs.read_log, details.logs, details.messages, LAST_LINES):
                self.console.note(line)
        if details.status == "Failed":
            for message in details.messages:
                self.console.note(f"Azure: {message}")
        return RunResult(job, details.status, stop.exit_code, stop.reason, attempts)


def attempt_result(
    job: Job, details: Details, *, trained: bool | None, trains: bool = True
) -> AttemptResult:
    """Return how an attempt ended, for the policy. Pure.

    Args:
        job: Job that has ended.
        details: Details of the same job.
        trained: Whether the result of its run exists; None if it could not be checked.
        trains: Whether the job is a training.
    """
    seconds = 0.0
    if details.started and details.ended:
        seconds = max((details.ended - details.started).total_seconds(), 0.0)
    status = details.status if details.status in ENDED else job.status
    return AttemptResult(
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
