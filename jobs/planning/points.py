"""Measured points of a scaling sweep: one JSON object a line, only ever appended. Pure but for
reading and appending.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from common.errors import UserError

FILE: Final = "points.jsonl"
"""Name of the file in the folder of a sweep."""
SWEEPS: Final = "scaling"
"""Folder of all sweeps: SWEEPS/NAME of this machine, SWEEPS/STACK/NAME of a stack."""
SYNTHETIC: Final = "synthetic"


@dataclass(frozen=True)
class Point:
    """One measurement: a training on a number of nodes, or of ranks of this machine."""

    size: str
    """VM size, or `this machine`."""
    nodes: int
    ranks: int
    model: str
    """Such as ResNet-50."""
    precision: str
    """float32 or mixed_float16."""
    batch_per_rank: int
    image_size: int
    rates: tuple[float, ...]
    """Images/s of all ranks together, of each repeat; empty if the point failed."""
    network: str | None = None
    """Network between the nodes that NCCL reported; None for one node."""
    at: str = ""
    """Time in UTC as in ISO 8601."""
    environment: Mapping[str, str] | None = None
    """What explains the rates: image, driver, versions, machine."""
    problem: str | None = None
    """Why the point is not to be used; None if it is."""
    accumulation: int = 1
    """Micro-batches into which a rank's batch was divided."""
    xla: bool | None = None
    """Whether XLA compiled the step; None if that was not noted, which fits both."""
    data: str = SYNTHETIC
    """What was read: synthetic, or a data set as NAME:VERSION or folder."""

    @property
    def middle(self) -> float:
        return median(self.rates)

    @property
    def usable(self) -> bool:
        return bool(self.rates) and self.problem is None


def read(path: Path) -> list[Point]:
    """Read the points of a file.

    Raises:
        UserError: The file does not exist, or a line is no point; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(parse(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}, line {number}: is no measured point ({error})") from error
    return found


def parse(data: Mapping[str, Any]) -> Point:
    """Return the point of a line.

    Raises:
        TypeError: A field is unknown or missing.
        ValueError: A rate is not above 0, or there are no nodes or ranks.
    """
    rates = tuple(float(rate) for rate in data["rates"])
    point = Point(**{**data, "rates": rates})
    if any(rate <= 0 for rate in rates) or min(point.nodes, point.ranks) < 1:
        raise ValueError("rates, nodes and ranks must be above 0")
    return point


def append(path: Path, point: Point) -> None:
    """Append a point to a file; what is in it stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(point)) + "\n")


def alike(points: Iterable[Point], wanted: Point) -> list[Point]:
    """Return the usable points with the configuration of a point, ascending by nodes and ranks: the
    newest of each.
    """
    found = {
        (point.nodes, point.ranks): point
        for point in points
        if point.usable and have_one_configuration(point, wanted)
    }
    return [found[key] for key in sorted(found)]


def fitting(points: Iterable[Point], wanted: Point) -> dict[int, Point]:
    """Return the usable points with the configuration of a point by number of nodes: the newest of
    each.
    """
    return {point.nodes: point for point in alike(points, wanted)}


def efficiency(point: Point, base: Point | None) -> float | None:
    """Return throughput of a rank in that of a rank of another point; None without one."""
    return None if base is None else point.middle / point.ranks / (base.middle / base.ranks)


def span(points: Sequence[float]) -> tuple[float, float, float]:
    """Return the lowest rate, the median and the highest."""
    return min(points), median(points), max(points)


def have_one_configuration(point: Point, other: Point) -> bool:
    """Whether two points differ at most in nodes, ranks and what was measured."""

    def configuration(one: Point) -> tuple[object, ...]:
        network = one.model, one.precision, one.image_size
        return one.size.lower(), *network, one.batch_per_rank, one.accumulation, one.data

    compiled_alike = point.xla == other.xla or None in (point.xla, other.xla)
    return compiled_alike and configuration(point) == configuration(other)


def newest(folder: Path, stack: str) -> Path | None:
    """Return the file of the newest sweep of a stack, by the time of its last usable point; None
    without one.

    Args:
        folder: Folder of all sweeps.
        stack: Name of the stack.

    Raises:
        UserError: A file is broken; names the line.
    """
    times = {
        file: max((point.at for point in read(file) if point.usable), default=None)
        for file in folder.glob(f"{stack}/*/{FILE}")
    }
    known = {file: at for file, at in times.items() if at is not None}
    return max(known, key=lambda file: known[file], default=None)
