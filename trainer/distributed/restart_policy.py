"""Whether a run that crashed is started again. Pure, standard library only.

What was killed (a rank that a signal ended, a lost peer, a watchdog) is started again, as chance
may not repeat itself. What is broken is not: an error that says what to mend, and any other one
that has come twice at the same step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from signal import Signals

from common.errors import ConfigError, UserError
from trainer.distributed.failures import Failure
from trainer.errors import (
    STOP_SIGNALS,
    STOP_STATUSES,
    CheckpointError,
    DataError,
    NonFiniteError,
    PeerError,
)

LONGEST_DELAY = 60.0
"""Seconds."""

_EXPLAINED = {
    error.exit_code for error in (ConfigError, DataError, CheckpointError, NonFiniteError)
}
_STOPPED = STOP_STATUSES | {-number for number in STOP_SIGNALS}


@dataclass(frozen=True)
class AttemptResult:
    """How one attempt of a run ended."""

    statuses: tuple[int, ...]
    """Of the ranks that ended by themselves, in that order, as `subprocess` has them: if negative,
    the signal that killed the rank."""
    failures: tuple[Failure, ...] = ()
    """What ranks have told of it."""
    saved_before: int | None = None
    """Step of the newest checkpoint when the attempt began; None if there was none."""
    saved: int | None = None
    """The same when it ended."""

    @property
    def status(self) -> int:
        """0 if all ranks succeeded; else the exit status of the rank that failed first, not of one
        that only lost its peer.
        """
        failed = [128 - status if status < 0 else status for status in self.statuses if status]
        causes = [status for status in failed if status != PeerError.exit_code]
        return (causes or failed or [0])[0]

    @property
    def progressed(self) -> bool:
        """Whether it has saved a newer checkpoint."""
        return self.saved is not None and self.saved != self.saved_before


@dataclass(frozen=True)
class RestartDecision:
    """Whether to start a run again."""

    restart: bool
    delay: float
    """Seconds to wait before."""
    reason: str
    """In words; empty where all has been said."""


def decide_restart(history: Sequence[AttemptResult], restarts: int) -> RestartDecision:
    """What to do after the last of the attempts.

    Args:
        history: all attempts until now.
        restarts: how many to allow in a row without a newer checkpoint.
    """
    last = history[-1]
    if not any(last.statuses) or _STOPPED & set(last.statuses):
        return _no_restart("")
    if _EXPLAINED & set(last.statuses) or any(failure.explained for failure in last.failures):
        return _no_restart("")
    repeated = _errors(last) & _errors(history[-2]) if len(history) > 1 else set()
    if repeated:
        what, step = min(repeated)
        return _no_restart(
            f"not started again: {what}, after step {step}, came twice in a row, so it is no chance"
        )
    number = _in_vain(history)
    if number > restarts:
        if not restarts:
            return _no_restart("")
        return _no_restart(
            f"not started again: {restarts} times in a row brought no newer checkpoint"
        )
    start = "from its start" if last.saved is None else f"from the checkpoint of step {last.saved}"
    delay = min(2.0 ** (number - 1), LONGEST_DELAY)
    reason = f"starting again {start} in {delay:g} s ({number} of {restarts} in a row)"
    return RestartDecision(True, delay, reason)


def describe_exit(rank: int, status: int) -> str:
    """How a rank ended, in words, given its status as `subprocess` has it."""
    if status >= 0:
        return f"rank {rank} ended with status {status}"
    number = -status
    name = Signals(number).name if number in set(Signals) else f"signal {number}"
    hint = " (out of memory?)" if number == Signals.SIGKILL else ""
    return f"rank {rank} was killed by {name}{hint}"


def _no_restart(reason: str) -> RestartDecision:
    return RestartDecision(False, 0.0, reason)


def _errors(result: AttemptResult) -> set[tuple[str, int]]:
    """What is broken, and at which step, if anything is."""
    if result.statuses[0] < 0:
        # What follows when a rank is killed is not what is broken.
        return set()
    errors = {(failure.what, failure.step) for failure in result.failures}
    if errors or UserError.exit_code not in result.statuses:
        return errors
    return {(f"an end with status {UserError.exit_code}", result.saved or 0)}


def _in_vain(history: Sequence[AttemptResult]) -> int:
    """Which restart in a row it would be since one has brought a newer checkpoint."""
    number = 0
    for result in reversed(history):
        number += 1
        if result.progressed:
            break
    return number
