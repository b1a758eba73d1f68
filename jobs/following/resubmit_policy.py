"""Decide whether a run whose job has ended is submitted again. Pure.

An interrupted run is submitted again: its nodes were pre-empted, ranks were lost or stopped by a
signal, it was moved to another cluster, its job reached Azure's maximum lifetime, or a step did not
fit into memory for the first time. A run that failed by another error is not, nor is a cancelled
one unless the options say so. An attempt has one name, so two supervisors never submit it twice.
They may decide differently: only one that looks within a minute sees that nodes are gone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.errors import ConfigError, UserError
from common.prices import Price, money
from common.text import plural
from infra.outputs import Cluster
from jobs.errors import RequestError
from jobs.evictions import evidence
from jobs.exit_status import BUDGET_USED, CANCELED, NOT_RESUBMITTED
from jobs.options import ResubmitOptions
from jobs.spec.budget_policy import Budget
from jobs.spec.job_spec import LIFETIME_HOURS
from trainer.errors import (
    STOP_STATUSES,
    TIME_LIMIT_STATUS,
    WATCHDOG_EXIT_CODE,
    CheckpointError,
    DataError,
    NonFiniteError,
    OutOfMemoryError,
    PeerError,
)

Status = Literal["Completed", "Failed", "Canceled"]
"""Final states of a job. NotResponding is not one of them, although the SDK lists it as both final
and running: a job that sends no heartbeat may still be training."""

FAILED: Final = UserError.exit_code
RESULT_UNKNOWN: Final = RequestError.exit_code
"""Exit status for a completed job whose result could not be read."""

LIMIT_REACHED: Final = 0.99
"""Fraction of a time limit at which it counts as reached: the run history's clock differs from
that of the nodes."""

_NO_ROLE: Final = re.compile(r"AuthorizationPermissionMismatch|StreamAccess\.Authentication")
"""Errors for a folder that the job may not open: the code of Storage, and that of Azure ML."""
_UNFIT: Final = re.compile(
    rf"{_NO_ROLE.pattern}|image.?build|build.{{0,20}}image|quota|InvalidRequest|ValidationError",
    re.IGNORECASE,
)
"""Errors of a job that would occur on other nodes too, before its program starts."""
_EXPLAINED: Final = {
    error.exit_code for error in (ConfigError, DataError, CheckpointError, NonFiniteError)
}
_LOST_PEER: Final = {PeerError.exit_code, WATCHDOG_EXIT_CODE}


SEEN_SECONDS: Final = 60.0
"""Seconds after the end of a job in which the nodes of its cluster tell why it ended. Until then
Azure keeps idle nodes: a stack's `idle_seconds_before_scale_down` is at least 60."""


_KEPT: Final = {
    True: ("Its checkpoints are kept", "resumes from them"),
    False: ("What it has written is kept", "continues"),
}
"""The remains of a run that is not submitted again, and the next command for them, by whether the
run trains."""


@dataclass(frozen=True)
class NodesSeen:
    """The nodes of an attempt's cluster, as they were seen after its end."""

    needed: int
    """Nodes of the attempt."""
    present: int
    """Nodes of the cluster in any state but pre-empted."""
    preempted: int
    seconds: float
    """Longest time in seconds from the end of the attempt until they were seen."""


@dataclass(frozen=True)
class AttemptResult:
    """How one attempt of a run ended."""

    status: Status
    seconds: float = 0.0
    """Seconds from the start of the program to its end; 0 if it never started."""
    timeout_seconds: float | None = None
    """Timeout of the attempt in seconds, or None."""
    messages: tuple[str, ...] = ()
    """Azure's messages: code and message of the error, and the events of the run history."""
    exit_code: int | None = None
    """Exit status of the trainer, or None if unknown."""
    vanished: bool = False
    """Whether the program has begun and reported no end, and Azure's messages cannot be read."""
    begun: bool = True
    """Whether the program has started, as far as it or Azure tells."""
    canceled_by_us: bool = False
    """Whether a user cancelled the run with this project's `cancel`."""
    trained: bool | None = None
    """Whether the run's result exists, after all epochs; None if it could not be checked."""
    trains: bool = True
    """Whether the job trains; other kinds of job have no result to check."""
    moved: str | None = None
    """Why a supervisor has ended the attempt, so that the next one runs elsewhere."""
    nodes: NodesSeen | None = None
    """Nodes of the attempt's cluster right after a cancellation or a failure; None if they were not
    seen."""
    price: Price | None = None
    """Highest price of a node that was seen while the attempt ran; None if none has watched it."""
    by_person: bool = False
    """Whether a user, not a supervisor, submitted the attempt; ignored for the first attempt."""

    @property
    def lost(self) -> bool:
        """Whether a rank was lost, as far as the program's end shows."""
        return self.vanished or self.exit_code in _LOST_PEER

    @property
    def timed_out(self) -> bool:
        return (
            self.timeout_seconds is not None
            and self.seconds >= self.timeout_seconds * LIMIT_REACHED
        )


@dataclass(frozen=True)
class Resubmit:
    """Submit the next attempt."""

    number: int
    """Number of the next attempt."""
    delay: float
    """Seconds to wait before submitting it."""
    reason: str


@dataclass(frozen=True)
class Stop:
    """Do not submit the run again."""

    exit_code: int
    """Exit status of the command that followed the run: 0 only if the run has completed."""
    reason: str
    show_log: bool = False
    """Whether the last lines of the log explain the reason."""


def decide(
    history: Sequence[AttemptResult],
    options: ResubmitOptions,
    cluster: Cluster | None,
    budget: Budget | None = None,
) -> Resubmit | Stop:
    """Decide what to do after the last attempt.

    Args:
        history: Results of all attempts, oldest first.
        options: Maximum number of attempts and pauses between them.
        cluster: Cluster that the last attempt ran on; None if the stack does not have it any more.
        budget: Budget of the run after the last attempt; None if it has none.
    """
    last = history[-1]
    if last.trained or (last.status == "Completed" and not last.trains):
        return Stop(0, "training completed" if last.trained else "completed")
    if last.status == "Completed" and last.trained is None:
        return Stop(
            RESULT_UNKNOWN,
            "completed, but its result could not be read, so it is unknown whether the training"
            " completed. Follow it again to check again",
        )
    number = len(history) + 1
    planned = _planned(last, budget, number) if cluster is not None else None
    on_purpose = planned or _on_purpose(last, budget)
    if on_purpose is not None:
        return on_purpose
    history = _since_a_person(history)
    interruption = _interruption(history, options, cluster)
    if interruption is None:
        return _stop(last)
    count = len(history) + 1
    code, obstacle, cure = NOT_RESUBMITTED, "", ""
    state, goes_on = _KEPT[last.trains]
    if count > options.attempts:
        obstacle = f"--resubmit.attempts allows only {options.attempts} attempts"
        cure = f"the same command with a higher number {goes_on}"
    elif budget is not None and budget.used_up:
        code, obstacle, cure = BUDGET_USED, _spent(budget), _with_more(budget)
    elif cluster is None:
        obstacle = "the stack does not have its cluster any more"
        cure = f"the same command with --name KEY and --cluster NAME {goes_on} on another one"
    if obstacle:
        return Stop(
            code,
            f"{interruption}; not submitted again, as {obstacle}. {state}; {cure}",
        )
    # The exponent is limited so that a large number of attempts does not overflow.
    pause = options.backoff_seconds * 2.0 ** min(count - 2, 64)
    delay = min(pause, options.longest_backoff_seconds)
    if count == number:
        following = f"attempt {number} of {options.attempts} follows"
    else:
        following = (
            f"attempt {number} follows, {count} of {options.attempts} since it was last submitted"
            " by a user"
        )
    return Resubmit(number, delay, f"{interruption}; {following}")


def _planned(last: AttemptResult, budget: Budget | None, number: int) -> Resubmit | None:
    """Return the next attempt of a run that a supervisor has ended, or that has run for the time
    that Azure allows, or that its budget pays for at the highest price; None for any other.
    """
    if last.canceled_by_us:
        return None
    if last.moved and (budget is None or not budget.used_up):
        return Resubmit(number, 0.0, f"moved, as {last.moved}; attempt {number} follows")
    if last.exit_code != TIME_LIMIT_STATUS or budget is None or budget.used_up:
        return None
    if _had_its_timeout(last, budget):
        hours = (budget.longest_seconds or 0) / 3600
        if hours not in LIFETIME_HOURS.values():
            return None
        reason = f"saved before Azure ends it after {hours / 24:g} days"
    elif budget.highest > budget.price:
        reason = _in_time(budget)
    else:
        return None
    return Resubmit(number, 0.0, f"{reason}; attempt {number} follows")


def _on_purpose(last: AttemptResult, budget: Budget | None) -> Stop | None:
    """Return why a run was stopped that a user or its budget has stopped; None for any other."""
    if last.canceled_by_us:
        return Stop(CANCELED, "cancelled by `cancel`")
    if last.moved and budget is not None and budget.used_up:
        text = f"ended to run elsewhere, but {_spent(budget)}. Its checkpoints are kept"
        return Stop(BUDGET_USED, f"{text}; {_with_more(budget)}")
    if last.exit_code == TIME_LIMIT_STATUS:
        if budget is None or (_had_its_timeout(last, budget) and not budget.used_up):
            at = "at its --max-seconds" if budget is None else "before its --timeout-hours"
            text = f"stopped {at}; its state is saved, and the same command with this --name"
            return Stop(TIME_LIMIT_STATUS, f"{text} resumes from it")
        text = f"stopped at its budget, as {_spent(budget)}. Its checkpoints are kept"
        return Stop(BUDGET_USED, f"{text}; {_with_more(budget)}")
    if last.status == "Canceled" and last.timed_out and budget is not None and budget.used_up:
        text = f"cancelled at its timeout, as {_spent(budget)}. Its checkpoints are kept"
        return Stop(BUDGET_USED, f"{text}; {_with_more(budget)}")
    return None


def _had_its_timeout(last: AttemptResult, budget: Budget) -> bool:
    """Return whether an attempt had the timeout of a job without a budget, as its budget paid for
    at least as long.
    """
    longest, timeout = budget.longest_seconds, last.timeout_seconds
    return longest is not None and timeout is not None and timeout >= longest


def _in_time(budget: Budget) -> str:
    return (
        f"saved after the time that its budget pays for at {money(budget.highest, budget.currency)}"
        " an hour for each node, the price that Spot may reach; at the highest price that was"
        f" seen, {_spent(budget)}"
    )


def _spent(budget: Budget) -> str:
    spent, limit = (money(amount, budget.currency) for amount in (budget.spent, budget.limit))
    return f"it has cost about {spent} of {limit}"


def _with_more(budget: Budget) -> str:
    """Return the command that continues a run whose budget is used up."""
    least = money(budget.least, budget.currency)
    return f"the same command with this --name and a --budget above {least} resumes from them"


def _since_a_person(history: Sequence[AttemptResult]) -> Sequence[AttemptResult]:
    """Return the attempts that count: the count restarts when a user submits the run again. Those
    that a budget or a supervisor has ended do not count, as they are limited otherwise.
    """
    persons = (index for index, result in enumerate(history) if result.by_person)
    since = history[max(persons, default=0) :]
    earlier = [
        attempt
        for attempt in since[:-1]
        if not attempt.moved and attempt.exit_code != TIME_LIMIT_STATUS
    ]
    return [*earlier, since[-1]]


def _interruption(
    history: Sequence[AttemptResult], options: ResubmitOptions, cluster: Cluster | None
) -> str | None:
    """Return how the last attempt was interrupted, or None if it was not."""
    last = history[-1]
    if last.status == "Completed" or last.exit_code in _EXPLAINED:
        # The same error would occur on other nodes.
        return None
    message = evidence(last.messages)
    if message is not None:
        return f"interrupted: {message}"
    if last.status == "Failed":
        return _taken_in_setup(last, cluster) or _lost(history, cluster)
    return _ended_early(last, options, cluster)


def _ended_early(
    last: AttemptResult, options: ResubmitOptions, cluster: Cluster | None
) -> str | None:
    """Interpret a cancellation that Azure does not explain."""
    if cluster is not None:
        longest = LIFETIME_HOURS[cluster.priority] * 3600
        if last.seconds >= longest * LIMIT_REACHED:
            days = longest // 86_400
            return f"interrupted: Azure limits a job on {cluster.priority} nodes to {days} days"
    if last.timed_out:
        return None
    taken = _taken(last, cluster)
    if taken is not None:
        return f"interrupted: cancelled, but not with `cancel`, and {taken}"
    return "cancelled, but not by `cancel`" if options.canceled else None


def _taken_in_setup(last: AttemptResult, cluster: Cluster | None) -> str | None:
    """Return how a job has lost its nodes before its program started; None if it has not."""
    if last.begun or any(_UNFIT.search(text) for text in last.messages):
        return None
    taken = _taken(last, cluster)
    return f"interrupted: its program never started, and {taken}" if taken else None


def _taken(last: AttemptResult, cluster: Cluster | None) -> str | None:
    """Return the evidence of the nodes of a cluster about a job that has ended without words."""
    nodes = last.nodes
    low_priority = cluster is not None and cluster.priority == "LowPriority"
    if nodes is None or not low_priority or nodes.seconds > SEEN_SECONDS:
        return None
    # A job that was cancelled before it started had no nodes to lose.
    if last.status == "Canceled" and not last.seconds:
        return None
    if nodes.present >= nodes.needed:
        # After a person's cancellation, its nodes are still there. Others may be pre-empted.
        return None
    return (
        f"its cluster has {nodes.present} of its {plural(nodes.needed, 'node')} left"
        f" ({nodes.preempted} pre-empted), sooner than idle nodes are released"
    )


def _lost(history: Sequence[AttemptResult], cluster: Cluster | None) -> str | None:
    """Interpret the trainer's exit status for a failed job that Azure does not explain."""
    last = history[-1]
    if last.exit_code in STOP_STATUSES:
        return "interrupted: all ranks were asked to stop from outside, and saved their state"
    if not last.lost:
        return _out_of_memory(history)
    taken = _taken(last, cluster)
    if taken is not None:
        return f"interrupted: a rank was lost, and {taken}"
    before = history[-2] if len(history) > 1 else None
    if before is not None and before.lost and evidence(before.messages) is None:
        # Nodes are lost by chance; a loss twice in a row suggests a cause in the program.
        return None
    if last.vanished:
        return "interrupted: the trainer ended without a report, as it does when its node is lost"
    return f"interrupted: a rank was lost (exit status {last.exit_code} of the trainer)"


def _out_of_memory(history: Sequence[AttemptResult]) -> str | None:
    """Return why a run that did not fit into memory is submitted again, which it is once."""
    status = OutOfMemoryError.exit_code
    ends = [result.exit_code for result in history if result.trains]
    if not history[-1].trains or ends.count(status) != 1 or ends[-1] != status:
        return None
    return "out of memory: it continues with the same global batch in smaller micro-batches"


def _stop(last: AttemptResult) -> Stop:
    if last.status == "Canceled" and last.timed_out:
        goes_on = "resumes from its newest checkpoint" if last.trains else "continues"
        return Stop(
            CANCELED,
            f"cancelled at its timeout; the same command with a higher --timeout-hours {goes_on}",
        )
    if last.status == "Canceled" and last.exit_code not in _EXPLAINED:
        return Stop(
            CANCELED,
            "cancelled by another user or by Azure, without evidence of pre-emption;"
            " --resubmit.canceled True submits such a run again",
        )
    code = last.exit_code or FAILED
    if last.status == "Completed":
        reason = "the job completed, but the run has not trained all of its epochs"
        return Stop(code, reason, show_log=True)
    if last.lost:
        reason = (
            "failed: ranks were lost twice in a row without evidence of lost nodes, so the cause is"
            " probably in the program"
        )
        return Stop(code, reason, show_log=True)
    if last.exit_code is None and any(_NO_ROLE.search(text) for text in last.messages):
        return Stop(
            code,
            "failed before its program started: the identity of the cluster has no role on a"
            " container that the job needs; Azure's message names it. Deploy the stack again (make"
            " up), wait some minutes for a new role to take effect, and submit the run again",
        )
    return Stop(code, "failed by its own error, so it is not submitted again", show_log=True)
