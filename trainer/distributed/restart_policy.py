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
from trainer.errors import STOP_SIGNALS, STOP_STATUSES, CheckpointError, DataError, NonFiniteError

LONGEST_DELAY = 60.0
"""Seconds."""

_EXPLAINED = {
    error.exit_code for error in (ConfigError, DataError, CheckpointError, NonFiniteError)
}
_STOPPED = STOP_STATUSES | {-number for number in STOP_SIGNALS}


@dataclass(frozen=True)
class Ending:
    """How one attempt of a run ended."""

    statuses: tuple[int, ...]
    """Of the ranks that ended by themselves, in that order; negative: the signal that killed it."""
    failures: tuple[Failure, ...] = ()
    """What ranks have told of it."""
    saved_before: int | None = None
    """Step of the newest checkpoint when the attempt began; none if there was none."""
    saved: int | None = None
    """The same when it ended."""

    @property
    def progressed(self) -> bool:
        return self.saved is not None and self.saved != self.saved_before


@dataclass(frozen=True)
class Decision:
    """What follows from an ending."""

    restart: bool
    delay: float
    """Seconds to wait before."""
    reason: str
    """In words; empty where all has been said."""


def decide(history: Sequence[Ending], restarts: int) -> Decision:
    """What to do after the last of the attempts.

    Args:
        history: all attempts until now.
        restarts: how many to allow in a row without a newer checkpoint.
    """
    last = history[-1]
    if not any(last.statuses) or _STOPPED & set(last.statuses):
        return _stay("")
    if _EXPLAINED & set(last.statuses) or any(failure.explained for failure in last.failures):
        return _stay("")
    repeated = _errors(last) & _errors(history[-2]) if len(history) > 1 else set()
    if repeated:
        what, step = min(repeated)
        return _stay(
            f"not started again: {what}, after step {step}, came twice in a row, so it is no chance"
        )
    number = _in_vain(history)
    if number > restarts:
        if not restarts:
            return _stay("")
        return _stay(f"not started again: {restarts} times in a row brought no newer checkpoint")
    start = "from its start" if last.saved is None else f"from the checkpoint of step {last.saved}"
    delay = min(2.0 ** (number - 1), LONGEST_DELAY)
    reason = f"starting again {start} in {delay:g} s ({number} of {restarts} in a row)"
    return Decision(True, delay, reason)


def describe(rank: int, status: int) -> str:
    """How a rank ended, in words, given its status as `subprocess` has it."""
    if status >= 0:
        return f"rank {rank} ended with status {status}"
    number = -status
    name = Signals(number).name if number in set(Signals) else f"signal {number}"
    hint = " (out of memory?)" if number == Signals.SIGKILL else ""
    return f"rank {rank} was killed by {name}{hint}"


def _stay(reason: str) -> Decision:
    return Decision(False, 0.0, reason)


def _errors(ending: Ending) -> set[tuple[str, int]]:
    """What is broken, and at which step, if anything is."""
    if ending.statuses[0] < 0:
        # What follows when a rank is killed is not what is broken.
        return set()
    told = {(failure.what, failure.step) for failure in ending.failures}
    if told or UserError.exit_code not in ending.statuses:
        return told
    return {(f"an end with status {UserError.exit_code}", ending.saved or 0)}


def _in_vain(history: Sequence[Ending]) -> int:
    """Which restart in a row it would be since one has brought a newer checkpoint."""
    number = 0
    for ending in reversed(history):
        number += 1
        if ending.progressed:
            break
    return number
