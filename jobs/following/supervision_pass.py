"""One pass over all runs of a workspace that ask for supervision.

A pass keeps no state: all of it is in the workspace, so any machine can do the next one, and
several may do one at the same time. It needs Resource Manager only, as a further attempt uses the
code that is there; the run history and the results of runs are read where the network allows it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from common.errors import UserError
from infra.outputs import Cluster
from jobs.azure.job_records import Job, by_run, recent
from jobs.azure.results import silent_seconds
from jobs.azure.submission import resubmit
from jobs.azure.workspace import Workspace
from jobs.console import Console
from jobs.errors import RequestError
from jobs.following import job_states
from jobs.following.follower import FollowSettings
from jobs.following.notices import Notifier
from jobs.following.rates import Rates
from jobs.following.resubmit_policy import Resubmit
from jobs.following.supervision_policy import Event, Look, look, marked_options
from jobs.following.supervisor import Supervisor
from jobs.spec.tags import OUTCOME, SUPERVISE

RETRY_SECONDS = 60.0
"""Longest outage to tolerate for one run, in seconds; the next pass looks at the run again."""


@dataclass(frozen=True)
class Seen:
    """The state of one run in a pass, and the action."""

    run: str
    job: str
    """The newest attempt; after a submission, the submitted one."""
    did: str
    """running, waiting, submitted, concluded, or error."""
    text: str
    notified: bool = False

    def document(self) -> dict[str, Any]:
        """Return this as JSON."""
        return dict(vars(self))


def runs_to_supervise(jobs: Iterable[Job], since: datetime) -> list[list[Job]]:
    """Return the runs that ask for supervision, each with its attempts, oldest first. Pure.

    Args:
        jobs: Jobs of the workspace.
        since: Runs whose newest attempt was created before are left out.
    """
    runs = by_run(job for job in jobs if SUPERVISE in job.tags).values()
    return [own for own in runs if own[-1].created is None or own[-1].created >= since]


@dataclass(frozen=True)
class SupervisionPass:
    """Looks once at each run that asks for supervision."""

    workspace: Workspace
    clusters: Mapping[str, Cluster]
    console: Console
    notifier: Notifier
    days: float
    """Age in days of the oldest attempt to look at."""
    dry_run: bool = False
    """Whether to print what would be done, and do nothing."""
    rates: Rates | None = None
    """Prices of Spot, which all passes share."""

    def run(self) -> list[Seen]:
        """Look at all runs, and take the actions that are due.

        An error about one run does not keep the others from being looked at.

        Raises:
            RequestError: The runs cannot be listed.
        """
        manager, listed = self.workspace.manager, self.workspace.jobs.newest_first(tag=SUPERVISE)
        jobs = list(recent(listed, manager.now, self.days))
        since = manager.now() - timedelta(days=self.days)
        return [self._try(own) for own in runs_to_supervise(jobs, since)]

    def _try(self, attempts: list[Job]) -> Seen:
        newest = attempts[-1]
        try:
            seen = self._look(attempts)
        except UserError as error:
            seen = Seen(newest.run, newest.name, "error", str(error))
        self.console.say(f"{seen.run}: {seen.text}")
        return seen

    def _look(self, attempts: list[Job]) -> Seen:
        job = attempts[-1]
        notified = False if self.dry_run else self._tell_earlier(attempts[:-1])
        if not job.ended:
            reason = None if self.dry_run else self._supervisor(job).review(job)
            moved = f"; is ended to run elsewhere, as {reason}" if reason else ""
            if job.status == job_states.FINALIZING:
                now = self.workspace.manager.now()
                waited = silent_seconds(self.workspace.storage, job.run, now)
                moved += f": {job_states.finalizing(job, waited)}"
            return Seen(job.run, job.name, "running", f"{job.name} {job.status}{moved}", notified)
        if self.notifier.is_told(job):
            return Seen(job.run, job.name, "concluded", f"{job.name} {job.status}", notified)
        supervisor = self._supervisor(job)
        details = supervisor.details(job)
        history = supervisor.history(job, details, supervisor.nodes(job, details))
        decision = supervisor.decide(job, history)
        step = look(decision, details.ended, self.workspace.manager.now())
        submits = isinstance(decision, Resubmit)
        if job.tags.get(OUTCOME, "unknown") != "unknown":
            # It was concluded without a webhook, so only the notice is owed.
            text = f"{job.status}, and concluded before" if submits else step.text
            step, submits = Look("conclude", text, cast("Event", job.tags[OUTCOME])), False
        if step.action == "wait" or self.dry_run:
            return Seen(job.run, job.name, "waiting", step.text, notified)
        following = job
        reason = supervisor.waits_for_price(job) if submits else None
        if reason is not None:
            return Seen(job.run, job.name, "waiting", f"{job.name}: waits, as {reason}", notified)
        if submits:
            supervisor.check_budget(job, details)
            submitted = resubmit(self.workspace.jobs, job, supervisor.budget, supervisor.place)
            if submitted is None:
                # The next pass concludes it.
                return Seen(job.run, job.name, "waiting", f"{job.name}: was cancelled", notified)
            following, by_us = submitted
            done = "submitted" if by_us else "was submitted by another supervisor"
            text = f"{following.name} {done}: {step.text}"
        else:
            text = f"{job.name}: {step.text}"
        assert step.event is not None
        notified = self.notifier.tell(job, step.event, step.text) or notified
        did = "concluded" if following is job else "submitted"
        return Seen(job.run, following.name, did, text, notified)

    def _tell_earlier(self, attempts: list[Job]) -> bool:
        """Send the notices that a supervisor which ended too soon still owes."""
        owed = [job for job in attempts if job.ended and not self.notifier.is_told(job)]
        reason = "submitted again"
        sent = [self.notifier.tell(job, "resubmitted", reason) for job in owed]
        return any(sent)

    def _supervisor(self, job: Job) -> Supervisor:
        return Supervisor(
            self.workspace,
            self.clusters,
            self.console,
            FollowSettings(poll_seconds=1.0, retry_timeout_seconds=RETRY_SECONDS),
            marked_options(job.tags),
            resubmits=True,
            rates=self.rates,
        )


def failed(seen: Iterable[Seen]) -> int:
    """Return the exit status of a pass: not 0 if a run could not be looked at."""
    return RequestError.exit_code if any(run.did == "error" for run in seen) else 0
