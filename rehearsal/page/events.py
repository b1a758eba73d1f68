"""The events of the training, as sentences. Pure."""

from dataclasses import dataclass
from typing import Literal

from common.text import plural
from rehearsal.page.record import Attempt, Cycle, NodePool

GOOD = {"Completed", "Finalizing"}
"""Statuses of a job that succeeded."""


@dataclass(frozen=True)
class Event:
    """An event at one point in time."""

    at: float
    words: str
    where: Literal["began", "ended", "nodes"]
    """Where to mark it: at the beginning or the end of an attempt's bar, or on a cluster's
    curve."""
    index: int
    """Index of the attempt or the cluster."""
    tone: Literal["good", "cut", "plain"] = "plain"


def events(cycle: Cycle) -> tuple[Event, ...]:
    """Return the events of the attempts and their nodes, in order of time."""
    happened = []
    for index, attempt in enumerate(cycle.attempts):
        before = cycle.attempts[index - 1] if index else None
        happened.append(Event(attempt.began, _beginning(index, attempt, before), "began", index))
        if attempt.ended is not None:
            tone: Literal["good", "cut"] = "good" if attempt.status in GOOD else "cut"
            words = f"Attempt {index + 1}: {end_of(attempt)}{_reason(attempt)}"
            happened.append(Event(attempt.ended, words, "ended", index, tone))
    for index, pool in enumerate(cycle.pools):
        emptied = _emptied(pool, cycle.attempts)
        if emptied is not None:
            words = f"{pool.cluster} is scaled down to zero nodes"
            happened.append(Event(emptied, words, "nodes", index, "good"))
    return tuple(sorted(happened, key=lambda event: event.at))


def end_of(attempt: Attempt) -> str:
    """Return how an attempt ended and at which step."""
    if attempt.ended is None or attempt.last_step is None:
        return state_of(attempt)
    return f"{state_of(attempt)} at step {attempt.last_step:,}"


def state_of(attempt: Attempt) -> str:
    """Return how an attempt ended, or that it is still running."""
    if attempt.ended is None:
        return "still running"
    return "pre-empted" if was_preempted(attempt) else attempt.status.lower()


def was_preempted(attempt: Attempt) -> bool:
    """Check whether an attempt ended because its nodes were pre-empted."""
    reason = attempt.reason.lower().replace("-", "")
    return attempt.status not in GOOD and "preempt" in reason


def steps(attempt: Attempt) -> str:
    """Return which training steps an attempt did; empty if that is not known."""
    first, last = attempt.first_step, attempt.last_step
    if first is not None and last is not None:
        return f"steps {first:,} to {last:,}"
    if first is not None:
        return f"from step {first:,}"
    return "" if last is None else f"to step {last:,}"


def _beginning(index: int, attempt: Attempt, before: Attempt | None) -> str:
    on = f"{plural(attempt.ranks, 'rank')} on {plural(attempt.nodes, 'node')} of {attempt.cluster}"
    if before is None or attempt.first_step is None:
        return f"Attempt {index + 1} starts: {on}"
    again = 0 if before.last_step is None else before.last_step - attempt.first_step + 1
    how = "resumes at" if attempt.first_step > 1 else "starts over at"
    words = f"Attempt {index + 1} {how} step {attempt.first_step:,}"
    if again <= 0:
        return words
    return f"{words} and repeats {plural(again, 'step')}"


def _reason(attempt: Attempt) -> str:
    return f". {attempt.reason}" if attempt.reason else ""


def _emptied(pool: NodePool, attempts: tuple[Attempt, ...]) -> float | None:
    """Return when the last node left after the last attempt; None if nodes stayed or never were."""
    ends = [attempt.ended for attempt in attempts if attempt.cluster == pool.cluster]
    if not ends or not pool.samples or pool.samples[-1][1]:
        return None
    before = 0
    emptied = None
    for at, allocated in pool.samples:
        if before and not allocated:
            emptied = at
        before = allocated
    last = max((end for end in ends if end is not None), default=None)
    return emptied if emptied is not None and last is not None and emptied >= last else None
