"""Whether to restart a run that crashed. Pure, standard library only.

A run that was killed (a rank ended by a signal, a lost peer, a watchdog) is restarted, because the
cause may have been transient. A run that is broken is not: after an error that tells the user what
to do, or after any other error that has occurred twice at the same step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from common.errors import ConfigError, UserError
from trainer.distributed.failures import Failure
from trainer.errors import (
    STOP_SIGNALS,
    STOP_STATUSES,
    TIME_LIMIT_STATUS,
    CheckpointError,
    DataError,
    NonFiniteError,
    OutOfMemoryError,
    PeerError,
)

LONGEST_DELAY = 60.0
"""Longest delay before a restart, in seconds."""

_EXPLAINED = {
    error.exit_code for error in (ConfigError, DataError, CheckpointError, NonFiniteError)
}
_STOPPED = STOP_STATUSES | {TIME_LIMIT_STATUS} | {-number for number in STOP_SIGNALS}


@dataclass(frozen=True)
class AttemptResult:
    """Outcome of one attempt of a run."""

    statuses: tuple[int, ...]
    """Exit statuses of the ranks that ended by themselves, in the order in which they ended; as in
    `subprocess`, a negative status is the signal that killed the rank."""
    failures: tuple[Failure, ...] = ()
    """Failures that ranks have reported."""
    saved_before: int | None = None
    """Step of the newest checkpoint when the attempt began; None if there was none."""
    saved: int | None = None
    """Step of the newest checkpoint when the attempt ended; None if there was none."""

    @property
    def status(self) -> int:
        """0 if all ranks succeeded; else the exit status of the rank that failed first, other than
        one that only lost its peer.
        """
        failed = [128 - status if status < 0 else status for status in self.statuses if status]
        causes = [status for status in failed if status != PeerError.exit_code]
        return (causes or failed or [0])[0]

    @property
    def progressed(self) -> bool:
        """Whether the attempt has saved a newer checkpoint."""
        return self.saved is not None and self.saved != self.saved_before


@dataclass(frozen=True)
class RestartDecision:
    """Whether to restart a run."""

    restart: bool
    delay: float
    """Seconds to wait before the restart."""
    reason: str
    """Reason to print; empty if the rank's own error already explains it."""


def decide_restart(history: Sequence[AttemptResult], restarts: int) -> RestartDecision:
    """Decide what to do after the last attempt.

    Args:
        history: All attempts so far.
        restarts: Most restarts in a row without a newer checkpoint.
    """
    last = history[-1]
    if last.status == OutOfMemoryError.exit_code:
        # A run ends so only once, and continues with other micro-batches.
        return RestartDecision(True, 0.0, "starting again with smaller micro-batches")
    ended = not any(last.statuses) or (_STOPPED | _EXPLAINED) & set(last.statuses)
    if ended or any(failure.explained for failure in last.failures):
        return _no_restart("")
    repeated = _errors(last) & _errors(history[-2]) if len(history) > 1 else set()
    if repeated:
        what, step = min(repeated)
        return _no_restart(
            f"not started again: {what}, after step {step}, occurred twice in a row, so a restart"
            " would not help"
        )
    number = _in_vain(history)
    if number > restarts:
        if not restarts:
            return _no_restart("")
        return _no_restart(
            f"not started again: no newer checkpoint after {restarts} restarts in a row"
        )
    start = "from its start" if last.saved is None else f"from the checkpoint of step {last.saved}"
    delay = min(2.0 ** (number - 1), LONGEST_DELAY)
    reason = f"starting again {start} in {delay:g} s ({number} of {restarts} in a row)"
    return RestartDecision(True, delay, reason)


def describe_exit(rank: int, status: int) -> str:
    """Return how a rank ended, in words, given its status as in `subprocess`."""
    if status >= 0:
        return f"rank {rank} ended with status {status}"
    number = -status
    name = Signals(number).name if number in set(Signals) else f"signal {number}"
    hint = " (out of memory?)" if number == Signals.SIGKILL else ""
    return f"rank {rank} was killed by {name}{hint}"


def _no_restart(reason: str) -> RestartDecision:
    return RestartDecision(False, 0.0, reason)


def _errors(result: AttemptResult) -> set[tuple[str, int]]:
    """Return the errors of an attempt that a restart would not avoid, each with its step."""
    if result.statuses[0] < 0:
        # Errors of the other ranks only follow from the killed rank.
        return set()
    errors = {(failure.what, failure.step) for failure in result.failures}
    if errors or UserError.exit_code not in result.statuses:
        return errors
    return {(f"exit status {UserError.exit_code}", result.saved or 0)}


def _in_vain(history: Sequence[AttemptResult]) -> int:
    """Return the number of the next restart, counted from the last newer checkpoint."""
    number = 0
    for result in reversed(history):
        number += 1
        if result.progressed:
            break
    return number
