"""Follow a run through its attempts, and submit it again if it was interrupted, by the rules of
`jobs.following.resubmit_policy`.

All state is in the workspace, so a supervisor can be stopped, restarted and run twice.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from common.errors import UserError
from common.prices import Price, money
from common.waiting import wait_until
from infra.outputs import Cluster
from jobs import job_kinds
from jobs.azure.clusters import read_nodes
from jobs.azure.job_body import tagged_body
from jobs.azure.job_records import ENDED, RESUBMITTED, Details, Job, exit_status, move
from jobs.azure.requests import segment
from jobs.azure.results import is_trained
from jobs.azure.submission import resubmit
from jobs.azure.workspace import Workspace
from jobs.console import Console, next_command
from jobs.errors import AccessError, RequestError
from jobs.exit_status import NOT_RESUBMITTED
from jobs.following.follower import Follower, FollowSettings
from jobs.following.log_stream import last_lines
from jobs.following.moves import moves_of
from jobs.following.notices import Notifier
from jobs.following.rates import ASK_SECONDS, Rates, rates_of
from jobs.following.resubmit_policy import (
    SEEN_SECONDS,
    AttemptResult,
    NodesSeen,
    Resubmit,
    Status,
    Stop,
    decide,
)
from jobs.following.supervision_policy import Event, event_of
from jobs.leaf import MOVED, Place
from jobs.options import ResubmitOptions
from jobs.spec.budget_policy import LIMIT, Budget
from jobs.spec.run_key import MAX_ATTEMPTS
from trainer.errors import RUNNING

LAST_LINES: Final = 30
REVIEW_SECONDS = 30.0
"""Seconds between two looks at whether a followed attempt is to run elsewhere."""
LOOK_SECONDS = 5.0
"""Seconds between two checks for a cancelled run during the pause before its next attempt."""
LONGEST_POLL_SECONDS: Final = SEEN_SECONDS / 4
"""Longest pause of a supervisor between two looks at a job: later, its nodes say nothing."""
PRICE_SECONDS = ASK_SECONDS
"""Seconds between two questions for the price while a run waits for a lower one."""


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


@dataclass
class Supervisor:
    """Follows one run to its end."""

    workspace: Workspace
    clusters: Mapping[str, Cluster]
    """Clusters of the stack."""
    console: Console
    settings: FollowSettings
    """How each job is followed."""
    options: ResubmitOptions
    """When a run is submitted again."""
    resubmits: bool
    """Whether to submit an interrupted run again, or only to print how to do so."""
    notifier: Notifier | None = None
    """Sends a notice of each attempt that has ended, if there is a webhook."""
    rates: Rates | None = None
    """Prices of Spot, which supervisors of several runs share."""

    def __post_init__(self) -> None:
        self._jobs, self._manager = self.workspace.jobs, self.workspace.manager
        if self.resubmits:
            pause = min(self.settings.poll_seconds, LONGEST_POLL_SECONDS)
            self.settings = replace(self.settings, poll_seconds=pause)
        self.retry = self.settings.retry(self.console)
        """Retries of all requests about the run."""
        self._rates = self.rates or rates_of(self._manager, self.console)
        self.budget: Budget | None = None
        """Budget of the run after the last attempt, at the prices of now; None if it has none."""
        self.place: Place | None = None
        """Where the next attempt runs; None is where the last one ran."""
        self._unpriced: str | None = None
        """Cluster of the next attempt, if the price that the budget needs of it is unknown."""
        self._ended: dict[str, Details] = {}
        self._next_review = 0.0
        self.waiting = False
        """Whether the last attempt has ended, so that no job of the run is running."""

    def review(self, job: Job) -> str | None:
        """End an attempt, if the next one is to run elsewhere; return why, or None.

        Raises:
            RequestError: Azure did not answer.
        """
        moves = moves_of(job.tags)
        if moves is None:
            return None
        attempts = self._attempts(job)
        newest, _ = attempts[-1]
        if newest.name != job.name or newest.ended:
            return None
        reason = moves.leave(attempts, self._manager.now())
        if reason is None:
            return None
        # A PUT replaces all tags, also a mark that came while the details were read.
        newest = self._fresh(newest)
        if newest.ended or newest.canceled_by_us:
            return None
        # First, so that no supervisor takes the end for that of the run.
        self._jobs.put(job.name, tagged_body(newest, {MOVED: reason}))
        self._jobs.cancel(job.name)
        return reason.partition(": ")[2]

    def _attempts(self, job: Job) -> list[tuple[Job, Details]]:
        """Return all attempts of a job's run with their details. Those of attempts that have ended
        are read once.
        """
        pairs = []
        for attempt in self.retry.call(lambda: self._jobs.attempts(job.run)):
            details = self._ended.get(attempt.name) or self.details(attempt)
            if attempt.ended:
                self._ended[attempt.name] = details
            pairs.append((attempt, details))
        return pairs

    def _look(self, job: Job) -> None:
        """Take the actions that are due while a job is followed."""
        own = self._cluster(job.cluster)
        self._rates.look([own] if own else [])
        if time.monotonic() < self._next_review:
            return
        self._next_review = time.monotonic() + REVIEW_SECONDS
        try:
            reason = self.review(job)
        except RequestError:
            # The job continues, and the next review asks again.
            return
        if reason is not None:
            self.console.say(f"{job.name}: is ended to run elsewhere, as {reason}")

    def follow(self, job: Job) -> RunResult:
        """Follow a run from one attempt to its end.

        Raises:
            RequestError: Azure refused a request, or was unreachable for too long.
        """
        while True:
            follower = Follower(
                self._jobs, self._manager, job, self.console, self.settings, self.retry,
                each=partial(self._look, job) if self.resubmits else None,
            )  # fmt: skip
            details = follower.wait()
            self.waiting = True
            # Before the log, because the nodes change.
            nodes = self.nodes(job, details, follower.alive_at)
            follower.show_end(details)
            history = self.history(job, details, nodes)
            decision = self.decide(job, history)
            if isinstance(decision, Stop):
                return self._stop(job, details, decision, len(history))
            if not self.resubmits:
                reason = (
                    f"{decision.reason.split(';')[0]};"
                    f" `{next_command('follow', job.run, '--supervise')}` submits it again"
                )
                return RunResult(job, details.status, NOT_RESUBMITTED, reason, len(history))
            self.check_budget(job, details)
            following = self._next(job, history, decision)
            if following is None:
                # Cancelled meanwhile.
                job = self._fresh(job)
                decision = self.decide(job, self.history(job, details, nodes))
                if isinstance(decision, Resubmit):
                    continue
                following = decision
            if isinstance(following, Stop):
                return self._stop(job, details, following, len(history))
            job = following

    def history(self, job: Job, details: Details, nodes: NodesSeen | None) -> list[AttemptResult]:
        """Return the results of all attempts up to this one, which has just ended.

        Whether the run is fully trained is only looked up for the last attempt.

        Args:
            job: The last attempt.
            details: Its details.
            nodes: Result of `nodes` for it.
        """
        results = []
        attempt = job.attempt
        if attempt is not None:
            attempts = self.retry.call(lambda: self._jobs.attempts(job.run))
            results += [
                attempt_result(other, self.details(other), trained=None)
                for other in attempts
                if other.attempt is not None and other.attempt.number < attempt.number
            ]
        has_result = job_kinds.trains(job.kind) and attempt is not None
        job = self._fresh(job)
        trained = self._is_trained(job, details) if has_result else None
        last = attempt_result(job, details, trained=trained, trains=has_result)
        return [*results, replace(last, nodes=nodes, price=self._highest_price(job, details))]

    def _highest_price(self, job: Job, details: Details) -> Price | None:
        """Return the highest price of a node of a run with a budget that was seen while a job ran;
        None if it was not watched, or does not move.
        """
        cluster = self._cluster(job.cluster)
        if cluster is None or cluster.priority != "LowPriority":
            return None
        if LIMIT not in job.tags or details.started is None:
            return None
        seconds = (self._manager.now() - details.started).total_seconds()
        return self._rates.highest(cluster, max(seconds, 0.0))

    def nodes(self, job: Job, details: Details, alive_at: float | None = None) -> NodesSeen | None:
        """Look at the nodes of the cluster of a cancelled or failed job; return None if that says
        nothing.

        Args:
            job: The job, which has ended.
            details: Its details.
            alive_at: Time of `time.monotonic` at which it was last seen not to have ended.
        """
        if details.status not in ("Canceled", "Failed"):
            return None
        try:
            nodes = read_nodes(self._manager.get(f"computes/{segment(job.cluster)}"))
        except RequestError:
            return None
        # The first is exact, but does not count the time in which this machine was suspended.
        times = [] if alive_at is None else [time.monotonic() - alive_at]
        if details.ended is not None:
            times.append((self._manager.now() - details.ended).total_seconds())
        seconds = max(times, default=-1.0)
        if seconds < 0:
            return None
        present = nodes.busy + nodes.idle + nodes.preparing + nodes.unusable
        return NodesSeen(job.nodes, present, nodes.preempted, seconds)

    def details(self, job: Job) -> Details:
        """Return an attempt's details, or only its state if the run history refuses to show them,
        as it does outside of a private network.
        """
        try:
            return self.retry.call(partial(self._jobs.details, job.name), unless=(AccessError,))
        except AccessError:
            return Details(job.status)

    def decide(self, job: Job, history: list[AttemptResult]) -> Resubmit | Stop:
        """Decide whether a run is submitted again after its last attempt."""
        # A job that another program submitted has no further attempts.
        options = ResubmitOptions(attempts=1) if job.attempt is None else self.options
        own, self.budget = self._cluster(job.cluster), remaining_budget(job, history[-1])
        decision = decide(history, options, own, self.budget)
        last = job.attempt is not None and job.attempt.number == MAX_ATTEMPTS
        if last and isinstance(decision, Resubmit):
            return Stop(
                NOT_RESUBMITTED,
                f"{decision.reason.split(';')[0]}; not submitted again, as a run has at most"
                f" {MAX_ATTEMPTS} attempts. Its checkpoints are kept",
            )
        if self.resubmits and isinstance(decision, Resubmit):
            self.place = self._elsewhere(job)
            self._price(job)
            # The rest may be too small at the prices of now.
            decision = decide(history, options, own, self.budget)
        return decision

    def check_budget(self, job: Job, details: Details) -> None:
        """Check that the rest of the budget after an attempt is known, if the run has one.

        Raises:
            UserError: It is unknown how long the attempt took.
        """
        if self.budget is not None and details.ended is None:
            raise UserError(
                f"{job.name}: its times cannot be read from here, so the rest of its budget is"
                " unknown; supervise it from inside the network"
            )

    def _price(self, job: Job) -> None:
        """Price the rest of the budget for the place of the attempt after a job."""
        self._unpriced = None
        cluster = self._next_cluster(job)
        if self.place is None or self.place.cluster.lower() == job.cluster.lower():
            self.budget = self._rates.priced(self.budget, cluster)
        elif self.budget is not None:
            priced = self._rates.priced_elsewhere(self.budget, cluster) if cluster else None
            self._unpriced = None if priced else self.place.cluster
            self.budget = priced or self.budget
        if self.budget is not None and self.place is not None:
            self.budget = replace(self.budget, nodes=self.place.nodes)

    def waits_for_price(self, job: Job) -> str | None:
        """Return why the next attempt, which was decided on, waits for a price of its nodes; None
        if it does not.
        """
        if self._unpriced is not None:
            return f"Azure states no price of a node of {self._unpriced}, which its budget needs"
        limit, cluster = self.options.max_node_price, self._next_cluster(job)
        if limit is None or cluster is None or cluster.priority != "LowPriority":
            return None
        price = self._rates.now(cluster)
        if price is not None and price.amount <= limit:
            return None
        costs = f"costs {money(price.amount, price.currency)}" if price else "has no known price"
        return f"a Spot node of {cluster.size} {costs}, above --resubmit.max-node-price {limit:g}"

    def _next_cluster(self, job: Job) -> Cluster | None:
        """Return the cluster of the attempt after a job; None if the stack does not have it."""
        return self._cluster(self.place.cluster if self.place else job.cluster)

    def _elsewhere(self, job: Job) -> Place | None:
        """Return where the attempt after a job runs, if the run moves."""
        moves = moves_of(job.tags)
        if moves is None:
            return None
        available = {}
        for name in moves.clusters:
            try:
                nodes = read_nodes(self._manager.get(f"computes/{segment(name)}"))
            except RequestError:
                continue
            available[name] = nodes.idle
        return moves.place(self._attempts(self._fresh(job)), available, self._manager.now())

    def _cluster(self, name: str) -> Cluster | None:
        """Return a cluster by its name in Azure; None if the stack does not have it any more."""
        clusters = self.clusters.values()
        return next((each for each in clusters if each.name.lower() == name.lower()), None)

    def _next(
        self, job: Job, history: list[AttemptResult], decision: Resubmit
    ) -> Job | Stop | None:
        """Submit the next attempt after the pause.

        Returns:
            The attempt, the decision to stop after all, or None if the run was cancelled meanwhile.
        """
        self.console.say(f"{job.run}: {decision.reason}, in {decision.delay:.0f} s")
        if wait_until(lambda: self._fresh(job).canceled_by_us, decision.delay, LOOK_SECONDS):
            return None
        reported = None
        while (reason := self.waits_for_price(job)) is not None:
            if reason != reported:
                self.console.say(f"{job.run}: waits, as {reason}")
                reported = reason
            if wait_until(lambda: self._fresh(job).canceled_by_us, PRICE_SECONDS, LOOK_SECONDS):
                return None
            # Prices and the place may have changed, so the rest of the budget may be too small.
            again = self.decide(job, history)
            if isinstance(again, Stop):
                return again
        # A missing role does not appear by waiting.
        submitted = self.retry.call(
            lambda: resubmit(self._jobs, job, self.budget, self.place), unless=(AccessError,)
        )
        if submitted is None:
            return None
        following, by_us = submitted
        self.waiting = False
        self._notify(job, "resubmitted", decision.reason)
        self.console.say(
            f"{following.name}: submitted"
            if by_us
            else f"{following.name}: was already submitted by another `follow --supervise`"
        )
        return following

    def _notify(self, job: Job, event: Event, reason: str) -> None:
        if self.notifier is not None:
            self.notifier.tell(self._fresh(job), event, reason)

    def _fresh(self, job: Job) -> Job:
        return self.retry.call(lambda: self._jobs.get(job.name)) or job

    def _is_trained(self, job: Job, details: Details) -> bool | None:
        def look() -> bool:
            return self.retry.call(
                lambda: is_trained(self.workspace.storage, job, details), unless=(AccessError,)
            )

        try:
            # A job that completed has usually written its result, so a single 404 is not believed.
            return look() or (details.status == "Completed" and look())
        except RequestError as error:
            if job.reported_status == "0":
                return True
            self.console.note(f"{job.run}: its result cannot be read from here: {error}")
            return None

    def _stop(self, job: Job, details: Details, stop: Stop, attempts: int) -> RunResult:
        if stop.show_log:
            for line in last_lines(self._jobs.read_log, details.logs, details.messages, LAST_LINES):
                self.console.note(line)
        self._notify(job, event_of(stop), stop.reason)
        if details.status == "Failed":
            for message in details.messages:
                self.console.note(f"Azure: {message}")
        return RunResult(job, details.status, stop.exit_code, stop.reason, attempts)


def remaining_budget(job: Job, last: AttemptResult) -> Budget | None:
    """Return the budget of a run after an attempt; None if it has none."""
    budget = Budget.of(job.tags, job.nodes)
    return budget.after(last.seconds, last.price) if budget else None


def attempt_result(
    job: Job, details: Details, *, trained: bool | None, trains: bool = True
) -> AttemptResult:
    """Return how an attempt ended, for the policy. Pure."""
    seconds = 0.0
    if details.started and details.ended:
        seconds = max((details.ended - details.started).total_seconds(), 0.0)
    status = details.status if details.status in ENDED else job.status
    exit_code = exit_status(job, details)
    return AttemptResult(
        status=cast("Status", status),
        seconds=seconds,
        timeout_seconds=job.timeout_seconds,
        messages=details.messages,
        exit_code=exit_code,
        vanished=job.reported_status == RUNNING and not details.messages,
        begun=job.reported_status is not None or exit_code is not None,
        canceled_by_us=job.canceled_by_us,
        trained=trained,
        trains=trains,
        by_person=RESUBMITTED not in job.tags,
        moved=move(job, details).partition(": ")[2] or None,
    )
