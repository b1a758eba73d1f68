"""Measured points of a scaling sweep: one JSON object a line, only ever appended. Pure but for
reading and appending.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from common.errors import UserError


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


def fitting(
    points: Iterable[Point], size: str, model: str, precision: str, batch_per_rank: int
) -> dict[int, Point]:
    """Return the newest usable point of each number of nodes, for one size and configuration."""
    wanted = (size.lower(), model, precision, batch_per_rank)
    return {
        point.nodes: point
        for point in points
        if point.usable
        and (point.size.lower(), point.model, point.precision, point.batch_per_rank) == wanted
    }


def span(points: Sequence[float]) -> tuple[float, float, float]:
    """Return the lowest rate, the median and the highest."""
    return min(points), median(points), max(points)
