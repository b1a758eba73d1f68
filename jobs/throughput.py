"""Throughput of nodes: ranges in words, measured points in files, and expected throughput.

A file of points has one JSON object a line and is only ever appended to. Pure but for reading and
appending.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from os import SEEK_END
from pathlib import Path
from statistics import median
from typing import BinaryIO, Final

from common import fields
from common.errors import UserError
from trainer.config import ModelConfig, TrainConfig
from trainer.presets import PRESETS

FILE: Final = "points.jsonl"
"""Name of a file of points."""
FOLDER: Final = "scaling"
"""Folder of all points: FOLDER/NAME of this machine, FOLDER/STACK/NAME of a stack."""
SYNTHETIC: Final = "synthetic"
_CONFIGURATION: Final = {
    "model": "network",
    "precision": "precision",
    "image_size": "image size",
    "batch_per_rank": "batch of a rank",
    "accumulation": "micro-batches",
    "data": "data",
}
"""Fields of a point that decide its throughput, besides VM size and XLA, with their names."""
_DEPTHS: Final = (50, 101, 152)
_PLAIN: Final = (64, "7x7", 224)
"""Width, stem and image size of the ResNets that are called by their depth alone."""


@dataclass(frozen=True)
class Span:
    """A value with the ends of its range."""

    low: float
    middle: float
    high: float

    @property
    def values(self) -> tuple[float, float, float]:
        """Low end, middle and high end."""
        return self.low, self.middle, self.high

    def scaled(self, factor: float) -> "Span":
        return Span(*(value * factor for value in self.values))

    def shifted(self, by: float) -> "Span":
        return Span(*(value + by for value in self.values))

    def capped(self, cap: float) -> "Span":
        """Return the span with no value above a cap."""
        return Span(*(min(value, cap) for value in self.values))

    @classmethod
    def of(cls, values: Sequence[float]) -> "Span":
        """Return the lowest value, the median and the highest."""
        return cls(min(values), median(values), max(values))


def words(span: Span | None, unit: str = "") -> str:
    """Format a range as middle (low - high), with three digits: `?` if it is not known, `never` for
    an infinite end.
    """
    text = "?"
    if span is not None:
        low, text, high = map(_digits, span.values)
        text += f" ({low} - {high})" if low != high else ""
    return f"{text} {unit}".strip()


def _digits(value: float) -> str:
    if value == inf:
        return "never"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ends(span: Span | None, digits: int = 6) -> list[float | None] | None:
    """Return low, middle and high for JSON output, with null for infinite values."""
    if span is None:
        return None
    return [None if value == inf else round(value, digits) for value in span.values]


@dataclass(frozen=True)
class Expected:
    """Throughput that nodes are expected to reach, before it is measured."""

    images_per_s: Span | None
    """None if it cannot be predicted."""
    reason: str = ""
    """Why it cannot be predicted."""


@dataclass(frozen=True)
class Point:
    """One measurement: a run on a number of nodes, or of ranks of this machine."""

    size: str
    """VM size, or `this machine`."""
    nodes: int
    ranks: int
    model: str
    """Such as ResNet-50."""
    precision: str
    """float32, mixed_float16 or mixed_bfloat16."""
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
    """synthetic, or the data set that was read, as NAME:VERSION or folder."""

    def __post_init__(self) -> None:
        if min(self.nodes, self.ranks) < 1 or any(not 0 < rate < inf for rate in self.rates):
            raise ValueError("rates, nodes and ranks must be numbers above 0")

    @property
    def middle(self) -> float:
        return median(self.rates)

    @property
    def usable(self) -> bool:
        return bool(self.rates) and self.problem is None

    def difference(self, other: "Point") -> str | None:
        """Return how the configuration of this point differs from that of another one, apart from
        the VM size; None if it does not.
        """
        for field, name in _CONFIGURATION.items():
            own, others = getattr(self, field), getattr(other, field)
            if own != others:
                return f"{name} {own}, not {others}"
        if None in (self.xla, other.xla) or self.xla == other.xla:
            return None
        return f"{'with' if self.xla else 'without'} XLA"

    def is_like(self, other: "Point") -> bool:
        """Whether two points differ at most in nodes, ranks and the measurement."""
        return self.size.lower() == other.size.lower() and self.difference(other) is None


def name_problems(name: str) -> list[str]:
    """Return why a text cannot name a measurement, whose runs' keys begin with it."""
    if re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,39}", name):
        return []
    return [
        f"--name: {name!r} must be at most 40 letters, digits, '_' and '-', the first a letter or"
        " digit"
    ]


def wanted(
    config: TrainConfig, size: str, nodes: int = 1, ranks: int = 1, data: str = SYNTHETIC
) -> Point:
    """Return the point of a configuration that is to be measured, without rates."""
    return Point(
        *(size, nodes, ranks, model_name(config), config.compute.precision),
        *(config.batch_size, config.model.image_size, ()),
        accumulation=config.optimizer.accumulation,
        xla=config.compute.xla,
        data=data,
    )


def model_name(config: TrainConfig) -> str:
    """Return the network as points call it: ResNet-50, or all options that make it another one."""
    model = config.model
    # Ways to divide a network or to exchange updates change its throughput as well.
    given = fields.to_flags(config, PRESETS["digits"])
    features = (feature for feature in config.features if not feature.same_steps)
    flags = [feature.words.partition(" ")[0] for feature in features]
    changed = [word for flag in flags for word in (flag, given[given.index(flag) + 1])]
    resnet = config.task == "classification" and not model.builder and model.network == "resnet"
    plain = (model.width, model.stem, model.image_size) == _PLAIN and model.depth in _DEPTHS
    if resnet and plain and not changed:
        return f"ResNet-{model.depth}"
    return " ".join([config.task, *fields.to_flags(model, ModelConfig()), *changed])


def read(path: Path) -> list[Point]:
    """Read the points of a file. A last line without an end, of a process that was killed, is left
    out.

    Raises:
        UserError: The file does not exist, or a line is not a point; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    lines, points = text.splitlines(), []
    unfinished = len(lines) if text and not text.endswith("\n") else None
    for number, line in enumerate(lines, 1):
        try:
            data = json.loads(line)
            points.append(Point(**{**data, "rates": tuple(map(float, data["rates"]))}))
        except (KeyError, TypeError, ValueError) as error:
            if number == unfinished:
                break
            raise UserError(f"{path}, line {number}: is not a measured point ({error})") from error
    return points


def append(path: Path, point: Point) -> None:
    """Append a point to a file; complete lines stay as they are, and a last
    line without an end is ended or, if it is a part of a point, taken away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(point)) + "\n"
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, SEEK_END)
            if file.read(1) != b"\n":
                _end_line(file)
        file.write(line.encode())


def _end_line(file: BinaryIO) -> None:
    """End the last line of a file if it is a point, and take it away if it is a part of one."""
    file.seek(0)
    content = file.read()
    last = content.rpartition(b"\n")[2]
    try:
        json.loads(last)
    except ValueError:
        file.truncate(len(content) - len(last))
    else:
        file.write(b"\n")


def alike(points: Iterable[Point], like: Point) -> list[Point]:
    """Return the usable points with the configuration of a point, ascending by nodes and ranks: the
    newest of each.
    """
    newest = {
        (point.nodes, point.ranks): point
        for point in points
        if point.usable and point.is_like(like)
    }
    return [newest[key] for key in sorted(newest)]


def efficiency(point: Point, base: Point | None) -> float | None:
    """Return throughput of a rank in that of a rank of another point; None without one."""
    return None if base is None else point.middle / point.ranks / (base.middle / base.ranks)
