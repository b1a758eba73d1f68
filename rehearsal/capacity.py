"""Capacity of Spot nodes over time: a trace, and what makes the simulator follow it.

A trace is a CSV file with the columns hours, nodes and price: from that time on, so many nodes can
be had, at so many USD for a node and hour.
"""

import csv
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

COLUMNS: Final = ("hours", "nodes", "price")
_TICK_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Moment:
    """What there is from a time on."""

    hours: float
    """Hours since the start of the trace."""
    nodes: int
    price: float
    """USD for a node and hour."""


@dataclass(frozen=True)
class Trace:
    """Capacity over time; the last moment lasts."""

    moments: Sequence[Moment]
    """In order of time, the first one at 0."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a CSV file.

        Raises:
            ValueError: It is not a trace; names the file.
        """
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            try:
                moments = [
                    Moment(float(row["hours"]), int(row["nodes"]), float(row["price"]))
                    for row in rows
                ]
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: is not a trace of capacity ({error!r})") from error
        times = [moment.hours for moment in moments]
        if not moments or times[0] != 0 or times != sorted(times):
            raise ValueError(f"{path}: its hours must begin with 0 and rise")
        return cls(moments)

    def write(self, path: Path) -> None:
        """Write the trace as a CSV file."""
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(COLUMNS)
            lines.writerows(
                (f"{moment.hours:g}", moment.nodes, f"{moment.price:.4f}")
                for moment in self.moments
            )

    def at(self, hours: float) -> Moment:
        """Return what there is at a time."""
        number = bisect_right(self.moments, hours, key=lambda moment: moment.hours)
        return self.moments[max(number - 1, 0)]


@dataclass
class Market:
    """Makes what there is for Spot clusters follow a trace."""

    trace: Trace
    hours_per_second: float
    """Hours of the trace that pass in a second."""
    clusters: Callable[[], Sequence[str]]
    """Returns the ids of the Spot clusters."""
    running: Callable[[str], dict[str, int]]
    """Returns the nodes that the jobs of a cluster use, by the id of the job."""
    limit: Callable[[str, int], None]
    """Sets how many nodes there are for a cluster."""
    take: Callable[[str], object]
    """Pre-empts the nodes of a job."""
    price: Callable[[float], None]
    """Sets the price of a node for an hour."""

    def __post_init__(self) -> None:
        self._taken: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="market", daemon=True)

    def start(self) -> None:
        """Start at the beginning of the trace."""
        self._thread.start()

    def close(self) -> None:
        """Stop following the trace."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def step(self, hours: float) -> None:
        """Set the capacity to that of the trace at a time."""
        moment = self.trace.at(hours)
        self.price(moment.price)
        for cluster in self.clusters():
            self.limit(cluster, moment.nodes)
            running = self.running(cluster)
            self._taken &= set(running)
            left = sum(nodes for job, nodes in running.items() if job not in self._taken)
            for job in reversed([job for job in running if job not in self._taken]):
                if left <= moment.nodes:
                    break
                # Once, as its nodes are only gone some time after the notice.
                self._taken.add(job)
                left -= running[job]
                self.take(job)

    def _follow(self) -> None:
        begun = time.monotonic()
        while not self._ended.wait(_TICK_SECONDS):
            self.step((time.monotonic() - begun) * self.hours_per_second)
