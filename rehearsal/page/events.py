"""What happened to the training, in sentences. Pure."""

from dataclasses import dataclass
from typing import Literal

from common.text import plural
from rehearsal.cycle.record import Attempt, Cycle, Pool

GOOD = {"Completed", "Finalizing"}
"""Statuses of a job that did what it should."""


@dataclass(frozen=True)
class Event:
    """Something that happened at one time."""

    at: float
    words: str
    where: Literal["began", "ended", "nodes"]
    """At the beginning or the end of an attempt's bar, or on the curve of a cluster's nodes."""
    index: int
    """Of the attempt or the cluster."""
    tone: Literal["good", "cut", "plain"] = "plain"


def events(cycle: Cycle) -> tuple[Event, ...]:
    """What happened to the attempts and their nodes, in order of time."""
    found = []
    for index, attempt in enumerate(cycle.attempts):
        before = cycle.attempts[index - 1] if index else None
        found.append(Event(attempt.began, _beginning(index, attempt, before), "began", index))
        if attempt.ended is not None:
            tone: Literal["good", "cut"] = "good" if attempt.status in GOOD else "cut"
            words = f"Attempt {index + 1}: {ending(attempt)}{_reason(attempt)}"
            found.append(Event(attempt.ended, words, "ended", index, tone))
    for index, pool in enumerate(cycle.pools):
        emptied = _emptied(pool, cycle.attempts)
        if emptied is not None:
            words = f"{pool.cluster} is back to no nodes"
            found.append(Event(emptied, words, "nodes", index, "good"))
    return tuple(sorted(found, key=lambda event: event.at))


def ending(attempt: Attempt) -> str:
    """How an attempt ended and at which step, in a few words."""
    if attempt.ended is None or attempt.last_step is None:
        return manner(attempt)
    return f"{manner(attempt)} at step {attempt.last_step:,}"


def manner(attempt: Attempt) -> str:
    """How an attempt ended."""
    if attempt.ended is None:
        return "still running"
    return "nodes taken" if taken(attempt) else attempt.status.lower()


def taken(attempt: Attempt) -> bool:
    """Whether an attempt ended because its nodes were pre-empted."""
    said = attempt.reason.lower().replace("-", "")
    return attempt.status not in GOOD and "preempt" in said


def steps(attempt: Attempt) -> str:
    """Which steps of the training an attempt did; empty if that is not known."""
    first, last = attempt.first_step, attempt.last_step
    if first is not None and last is not None:
        return f"steps {first:,} to {last:,}"
    if first is not None:
        return f"from step {first:,}"
    return "" if last is None else f"to step {last:,}"


def _beginning(index: int, attempt: Attempt, before: Attempt | None) -> str:
    on = f"{plural(attempt.ranks, 'rank')} on {plural(attempt.nodes, 'node')} of {attempt.cluster}"
    if before is None or attempt.first_step is None:
        return f"Attempt {index + 1} begins: {on}"
    again = 0 if before.last_step is None else before.last_step - attempt.first_step + 1
    how = "continues at" if attempt.first_step > 1 else "begins anew with"
    words = f"Attempt {index + 1} {how} step {attempt.first_step:,}"
    if again <= 0:
        return words
    return f"{words}, so that {plural(again, 'step')} {'is' if again == 1 else 'are'} done again"


def _reason(attempt: Attempt) -> str:
    return f". {attempt.reason}" if attempt.reason else ""


def _emptied(pool: Pool, attempts: tuple[Attempt, ...]) -> float | None:
    """When the nodes went after the last attempt; none if they stayed or were never there."""
    ends = [one.ended for one in attempts if one.cluster == pool.cluster]
    if not ends or not pool.samples or pool.samples[-1][1]:
        return None
    before = 0
    found = None
    for at, allocated in pool.samples:
        if before and not allocated:
            found = at
        before = allocated
    last = max((end for end in ends if end is not None), default=None)
    return found if found is not None and last is not None and found >= last else None
