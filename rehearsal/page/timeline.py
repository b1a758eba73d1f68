"""The time axis of the timeline: steps, training attempts and nodes. Pure.

Positions are in percent of the axis, so that it is as wide as the page; the template and the style
sheet draw it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rehearsal.page.record import Cycle, NodePool

_DISTANCES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
"""Possible distances of two marks, in seconds; all are easy to count in."""


@dataclass(frozen=True)
class Axis:
    """Maps times to positions, in percent."""

    began: float
    ended: float

    def at(self, time: float) -> float:
        """Return the position of a time; a time outside the axis is put at its nearer end."""
        share = (time - self.began) / (self.ended - self.began)
        return 100 * min(max(share, 0.0), 1.0)

    def clock(self, time: float) -> str:
        """Return a time as minutes and seconds since the beginning."""
        return clock(time - self.began)

    def marks(self, limit: int) -> tuple[tuple[float, str], ...]:
        """Return positions and labels of at most `limit` marks, the first at the beginning."""
        length = self.ended - self.began
        days = (86_400 * 2**power for power in range(1, 60))
        distance = next(d for d in (*_DISTANCES, *days) if length / d < limit)
        times = (self.began + distance * index for index in range(int(length // distance) + 1))
        return tuple((self.at(time), self.clock(time)) for time in times)


def axis_of(cycle: Cycle) -> Axis:
    """Return an axis that covers everything that a cycle recorded."""
    ends = [cycle.began + cycle.seconds]
    ends += [step.began + step.seconds for step in cycle.steps if step.outcome != "skipped"]
    ends += [attempt.ended for attempt in cycle.attempts if attempt.ended is not None]
    # At least one second, because positions are divided by the length.
    return Axis(cycle.began, max(*ends, cycle.began + 1))


def clock(seconds: float) -> str:
    """Return a time since the beginning as minutes and seconds."""
    whole = max(int(seconds), 0)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def pools_with_nodes(pools: Sequence[NodePool]) -> list[tuple[int, NodePool]]:
    """Return the pools that ever had a node, with their index in the record."""
    return [
        (index, pool) for index, pool in enumerate(pools) if any(count for _, count in pool.samples)
    ]


def levels(pool: NodePool, end: float) -> Iterator[tuple[float, float, int]]:
    """Yield the begin, end and node count of each interval with a constant count."""
    changes = [
        (at, count)
        for index, (at, count) in enumerate(pool.samples)
        if not index or count != pool.samples[index - 1][1]
    ]
    for (at, count), (until, _) in pairwise([*changes, (end, 0)]):
        yield at, max(until, at), count
