"""Whether a run whose job has ended is submitted again. Pure: the same history, the same decision.

What was interrupted is submitted again: nodes that Azure pre-empted, a job that used up the time
that such nodes are lent for. What is broken is not, and what a person cancelled is not, unless it
was asked for. Two who supervise the same run come to the same attempt, which has one name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from common.errors import ConfigError, UserError
from infra.outputs import Cluster
from jobs.errors import RequestError
from jobs.exit_status import CANCELED, NOT_RESUBMITTED
from jobs.options import ResubmitOptions
from jobs.spec.job_spec import LIFETIME_HOURS
from trainer.errors import (
    STOP_STATUSES,
    WATCHDOG_EXIT_CODE,
    CheckpointError,
    DataError,
    NonFiniteError,
    PeerError,
)

Status = Literal["Completed", "Failed", "Canceled"]
"""In which a job of Azure ML has ended. NotResponding is none of them, although the SDK counts it
among both: a job that sends no heartbeat may still train."""

FAILED: Final = UserError.exit_code
RESULT_UNKNOWN: Final = RequestError.exit_code
"""Completed, but nobody could look at its result."""

LIMIT_REACHED: Final = 0.99
"""Part of a limit at which it counts as reached: the times in a run's history are those of its
service, not of its nodes."""

_EVIDENCE: Final = re.compile(
    r"PreemptionError|\bpre-?empt(?:ed|ion)\b"
    r"|\bNodeLost\b|\bnodes? (?:(?:was|were|is|are|has been|have been) )?lost\b",
    re.IGNORECASE,
)
"""PreemptionError and its text are what users report (Azure/MachineLearningNotebooks, issue 1242).
How Azure tells of a lost node is not documented; other words for it need the trainer's status."""
_NO_ROLE: Final = re.compile(r"AuthorizationPermissionMismatch|StreamAccess\.Authentication")
"""A folder of the job that it may not open: Storage's code, and that of Azure ML's own part."""
_EXPLAINED: Final = {
    error.exit_code for error in (ConfigError, DataError, CheckpointError, NonFiniteError)
}
_LOST_PEER: Final = {PeerError.exit_code, WATCHDOG_EXIT_CODE}


@dataclass(frozen=True)
class AttemptResult:
    """How one attempt of a run ended."""

    status: Status
    seconds: float = 0.0
    """From the start of the program to its end; 0 if it never started."""
    timeout_seconds: float | None = None
    """What the attempt was given."""
    messages: tuple[str, ...] = ()
    """What Azure says of it: the error's code and message, and the events of the run history."""
    exit_code: int | None = None
    """Of the trainer, where it is known."""
    canceled_by_us: bool = False
    """Whether the person who supervises asked for the end."""
    trained: bool | None = None
    """Whether the run's result is there, of all of its epochs; None where nobody could look."""
    trains: bool = True
    """Whether it is a training; other kinds of job leave no result to look at."""
    by_person: bool = False
    """Whether a person submitted the attempt, and not who supervises; the first one's is not
    looked at."""

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
    """Of the attempt."""
    delay: float
    """Seconds to wait before."""
    reason: str


@dataclass(frozen=True)
class Stop:
    """Leave it."""

    exit_code: int
    """Of the command that followed the run: 0 only for a run that has trained to its end."""
    reason: str
    show_log: bool = False
    """Whether the reason is in the last lines of the program."""


def decide(
    history: Sequence[AttemptResult], options: ResubmitOptions, cluster: Cluster
) -> Resubmit | Stop:
    """What to do after the last attempt.

    Args:
        history: results of all attempts until now, the first one first.
        options: how often, and with which pauses.
        cluster: where the last attempt ran.
    """
    last = history[-1]
    if last.trained or (last.status == "Completed" and not last.trains):
        return Stop(0, "trained to its end" if last.trained else "completed")
    if last.status == "Completed" and last.trained is None:
        return Stop(
            RESULT_UNKNOWN,
            "completed; its result could not be looked at, so nobody knows here whether it has"
            " trained to its end. Following it again looks again",
        )
    if last.canceled_by_us:
        return Stop(CANCELED, "cancelled, as you asked")
    number = len(history) + 1
    history = _since_a_person(history)
    interruption = _interruption(history, options, cluster)
    if interruption is None:
        return _stop(last)
    count = len(history) + 1
    if count > options.attempts:
        return Stop(
            NOT_RESUBMITTED,
            f"{interruption}; not submitted again, as {options.attempts} attempts are all that"
            " --resubmit.attempts allows. Its checkpoints stay, and the same command with a higher"
            " number goes on from them",
        )
    # The exponent has a limit of its own, so that no number of attempts overflows.
    pause = options.backoff_seconds * 2.0 ** min(count - 2, 64)
    delay = min(pause, options.longest_backoff_seconds)
    if count == number:
        following = f"attempt {number} of {options.attempts} comes next"
    else:
        following = f"attempt {number} comes next, {count} of {options.attempts} since a person's"
    return Resubmit(number, delay, f"{interruption}; {following}")


def evidence(messages: Sequence[str]) -> str | None:
    """The first of Azure's messages that tells of nodes that were pre-empted or lost."""
    return next((text for text in messages if _EVIDENCE.search(text)), None)


def _since_a_person(history: Sequence[AttemptResult]) -> Sequence[AttemptResult]:
    """The attempts that count: a person who submits a run again begins to count anew."""
    persons = (index for index, result in enumerate(history) if result.by_person)
    return history[max(persons, default=0) :]


def _interruption(
    history: Sequence[AttemptResult], options: ResubmitOptions, cluster: Cluster
) -> str | None:
    """How the last attempt was interrupted; None if it was not."""
    last = history[-1]
    if last.status == "Completed" or last.exit_code in _EXPLAINED:
        # What is broken stays broken on other nodes.
        return None
    message = evidence(last.messages)
    if message is not None:
        return f"interrupted: {message}"
    if last.status == "Failed":
        return _lost(history)
    longest = LIFETIME_HOURS[cluster.priority] * 3600
    if last.seconds >= longest * LIMIT_REACHED:
        days = longest // 86_400
        return f"interrupted: a job on {cluster.priority} nodes lives {days} days at most"
    if last.timed_out:
        return None
    return "cancelled, not by you" if options.canceled else None


def _lost(history: Sequence[AttemptResult]) -> str | None:
    """What the trainer's status says of a job that failed without any word of Azure's."""
    last = history[-1]
    if last.exit_code in STOP_STATUSES:
        return "interrupted: all ranks were asked to stop from outside, and saved their state"
    if last.exit_code not in _LOST_PEER:
        return None
    before = history[-2] if len(history) > 1 else None
    if before is not None and before.exit_code in _LOST_PEER and evidence(before.messages) is None:
        # Nodes are lost by chance; what comes twice in a row has a cause in the program.
        return None
    return f"interrupted: a rank was lost (the trainer ended with status {last.exit_code})"


def _stop(last: AttemptResult) -> Stop:
    if last.status == "Canceled" and last.timed_out:
        return Stop(
            CANCELED,
            "cancelled by its time-out; the same command with a higher --timeout-hours goes on from"
            " its newest checkpoint",
        )
    if last.status == "Canceled" and last.exit_code not in _EXPLAINED:
        return Stop(
            CANCELED,
            "cancelled by someone else or by Azure, without word of pre-emption;"
            " --resubmit.canceled True submits such a run again",
        )
    code = last.exit_code or FAILED
    if last.status == "Completed":
        reason = "the job has completed, but the run has not trained all of its epochs"
        return Stop(code, reason, show_log=True)
    if last.exit_code in _LOST_PEER:
        reason = "ranks were lost twice in a row without word of lost nodes, so it is no chance"
        return Stop(code, reason, show_log=True)
    if last.exit_code is None and any(_NO_ROLE.search(text) for text in last.messages):
        return Stop(
            code,
            "failed before its program began: what its cluster's jobs act as has no role on a"
            " container that it needs, and Azure's words say on which. Deploy the stack again (make"
            " up), give a new role some minutes to be known, and submit the run again",
        )
    return Stop(code, "failed by its own error, so it is not submitted again", show_log=True)
