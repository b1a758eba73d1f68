"""The time axis that everything on the time line shares. Pure."""

from dataclasses import dataclass

from rehearsal.cycle.record import Cycle
from rehearsal.page.markup import clock

_DISTANCES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
"""Seconds between two marks that a person can count in."""


@dataclass(frozen=True)
class Axis:
    """Maps times to places, in percent of the picture's width, so that it fits every screen."""

    began: float
    ended: float
    left: float
    """Place of the beginning."""
    right: float
    """Place of the end."""

    def at(self, time: float) -> float:
        """The place of a time; one outside the axis is put at its end."""
        share = (time - self.began) / (self.ended - self.began)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def marks(self, most: int) -> tuple[tuple[float, str], ...]:
        """Place and text of at most so many marks, the first at the beginning."""
        length = self.ended - self.began
        days = (86_400 * 2**power for power in range(1, 60))
        distance = next(d for d in (*_DISTANCES, *days) if length / d < most)
        count = int(length // distance) + 1
        return tuple(
            (self.at(self.began + distance * index), clock(distance * index))
            for index in range(count)
        )


def axis_of(cycle: Cycle, left: float, right: float) -> Axis:
    """An axis that holds everything that a cycle recorded.

    Args:
        cycle: what is drawn.
        left: place of the beginning, in percent.
        right: place of the end.
    """
    ends = [cycle.began + cycle.seconds]
    ends += [step.began + step.seconds for step in cycle.steps if step.outcome != "skipped"]
    ends += [attempt.ended for attempt in cycle.attempts if attempt.ended is not None]
    # Something that took no time at all still needs a length to be divided by.
    return Axis(cycle.began, max(*ends, cycle.began + 1), left, right)
