"""Which nodes a run asks for next, given how its attempts went. Pure.

A run has choices of nodes, the best first. It asks for the first one; if that many nodes do not
come, for fewer. Once it has run on fewer for a while, it asks for the first one again, twice as
rarely after each time in vain, and returns to where it ran if they do not come. So it never
changes to and fro without having run for longer than it has waited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

Left = Literal["", "down", "up", "pinned"]
"""Why this policy ended an attempt: its nodes did not come; more are to be tried; a user has pinned
another choice. Empty for an attempt that ended otherwise."""

MOST_MOVES: Final = 60
"""Attempts of a run after which it is only moved down, as a run has at most 99."""
_LONGEST: Final = 4
"""Number of doublings of the time on fewer nodes."""


@dataclass(frozen=True)
class NodeChoice:
    """Nodes that a run can ask for."""

    cluster: str
    """Name of the cluster in Azure."""
    nodes: int


@dataclass(frozen=True)
class MoveRules:
    """When a run asks for other nodes."""

    wait_hours: float
    """Hours to wait for the nodes of a choice that is not the last one."""
    up_hours: float
    """Hours on a choice that is not the first one, until the first one is tried."""


@dataclass(frozen=True)
class Placed:
    """An attempt, as far as it is known."""

    choice: int
    """Number of its choice."""
    waited_hours: float = 0.0
    """Hours in the queue, so far."""
    ran_hours: float = 0.0
    """Hours since its program has started; 0 if it has not."""
    left: Left = ""


def leave(
    history: Sequence[Placed], rules: MoveRules, last: int, pinned: int | None = None
) -> Left:
    """Decide whether the newest attempt is ended so that the next one asks for other nodes.

    Args:
        history: Attempts of the run, oldest first; the newest one has not ended.
        rules: The rules of the run.
        last: Number of the last choice.
        pinned: The choice that a user has pinned.
    """
    now = history[-1]
    if pinned is not None:
        return "pinned" if now.choice != pinned else ""
    if not now.ran_hours:
        return "down" if now.choice < last and now.waited_hours >= rules.wait_hours else ""
    if not now.choice or len(history) >= MOST_MOVES:
        return ""
    longer: float = 2 ** min(_in_vain(history[:-1]), _LONGEST)
    return "up" if now.ran_hours >= rules.up_hours * longer else ""


def following(
    history: Sequence[Placed],
    choices: Sequence[NodeChoice],
    available: Mapping[str, int],
    pinned: int | None = None,
) -> int:
    """Return the number of the choice that the next attempt asks for.

    Args:
        history: Attempts of the run, oldest first; all have ended.
        choices: Choices of the run, the best first.
        available: Idle nodes of clusters, by name: those that have come while a job waited for more
            of them.
        pinned: The choice that a user has pinned.
    """
    if pinned is not None:
        return pinned
    now, before = history[-1], history[-2] if len(history) > 1 else None
    if now.left != "down":
        # Nodes that were taken may be back, and an attempt that ended to go up does so.
        return 0
    lower = range(now.choice + 1, len(choices))
    fitting = [n for n in lower if choices[n].nodes <= available.get(choices[n].cluster, 0)]
    if fitting:
        return fitting[0]
    if before is not None and before.left == "up":
        return before.choice
    return min(now.choice + 1, len(choices) - 1)


def _in_vain(history: Sequence[Placed]) -> int:
    """Return how often the run was last moved up in vain, one time after the other."""
    count = 0
    for before, after in reversed(list(pairwise(history))):
        if before.left == "up":
            if after.left != "down":
                break
            count += 1
    return count
