"""Published measurements of training throughput.

`measurements.csv` has one measurement a row, whose columns are the fields of `Measurement`.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

from common.errors import UserError

SHIPPED: Final = Path(__file__).with_name("measurements.csv")
RESNETS: Final[Mapping[str, float]] = {"ResNet-50": 4.09, "ResNet-101": 7.80, "ResNet-152": 11.51}
"""Billions of multiply-adds of an image of 224 pixels (ResNet v1.5), of the networks that can be
predicted."""
_NVLINK: Final = {"P100": 1, "V100": 2, "A100": 3, "A30": 3, "H100": 4}
"""Generation of NVLink by GPU."""
_GENERATIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("K80", "P40", "P100"), "before Volta"),
    **dict.fromkeys(("V100", "V100S"), "Volta"),
    **dict.fromkeys(("T4", "8000"), "Turing"),
    **dict.fromkeys(("A100", "A30", "A10", "A6000", "A5000"), "Ampere"),
    **dict.fromkeys(("H100", "H100 NVL", "H200"), "Hopper"),
}
_BRANDS: Final = {"NVIDIA", "Tesla", "Quadro", "RTX", "GeForce"}
_RDMA: Final = ("IB", "InfiniBand", "RoCE", "RDMA")
_TOO_FAST: Final = 1.06
"""Efficiency above which a row contradicts its own base."""
_NUMBERS: Final[Mapping[str, type[float]]] = {
    **dict.fromkeys(("image_size", "gpus_per_node", "nodes", "batch_per_gpu"), int),
    **dict.fromkeys(("images_per_s", "efficiency"), float),
}


Network = Literal["InfiniBand", "TCP"]
"""Between nodes. InfiniBand stands for every network with RDMA, also RoCE."""


@dataclass(frozen=True)
class Measurement:
    """One published measurement."""

    source: str
    """File of a repository, or document, that it was read from."""
    date: str
    """Date of the source: YYYY, YYYY-MM or YYYY-MM-DD."""
    model: str
    image_size: int
    """Height and width in pixels."""
    batch_per_gpu: int | None
    """Images; None if the source does not say."""
    precision: str
    """fp32, tf32 or amp."""
    framework: str
    gpu: str
    gpus_per_node: int
    """GPUs that were used on each node."""
    nodes: int
    interconnect: str
    """Between GPUs; between nodes after a semicolon."""
    images_per_s: float | None
    """All GPUs together; None if only the efficiency was published."""
    efficiency: float | None
    """Throughput divided by GPUs times that of one GPU of the same system; None if that is
    unknown."""
    note: str
    series: str
    """Publisher and one of its systems, separated by a slash."""

    def __post_init__(self) -> None:
        for name in ("source", "date", "series", "model", "gpu", "interconnect", "framework"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing")
        if self.precision not in ("fp32", "tf32", "amp"):
            raise ValueError(f"precision {self.precision!r} is not fp32, tf32 or amp")
        values = {name: getattr(self, name) for name in _NUMBERS}
        wrong = [name for name, value in values.items() if value is not None and value <= 0]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: must be above 0")
        if self.images_per_s is None and self.efficiency is None:
            raise ValueError("has neither images_per_s nor efficiency")

    @property
    def gpus(self) -> int:
        return self.gpus_per_node * self.nodes

    @cached_property
    def publisher(self) -> str:
        """Who published it. All rows of a publisher are left out together in a back-test."""
        return self.series.split("/")[0].rstrip("0123456789")

    @cached_property
    def gpu_type(self) -> str:
        return gpu_type(self.gpu)

    @cached_property
    def generation(self) -> str:
        return generation(self.gpu_type)

    @cached_property
    def link(self) -> str:
        """How GPUs of a node reach each other: NVLink 2, NVLink pairs, PCIe or host memory."""
        inside = self.interconnect.partition(";")[0].strip()
        if "host memory" in inside:
            return "host memory"
        return link_of(self.gpu_type) if inside == "NVLink" else inside.partition(" (")[0]

    @cached_property
    def network(self) -> Network | None:
        """Network between the nodes; None for one node."""
        between = self.interconnect.partition(";")[2]
        if self.nodes == 1 or not between:
            return None
        return "InfiniBand" if any(word in between for word in _RDMA) else "TCP"

    @cached_property
    def software(self) -> str:
        """Kind of software, by which throughput of one GPU differs most."""
        for name in ("MXNet", "PyTorch", "TensorFlow"):
            if name.lower() in self.framework.lower():
                xla = name == "TensorFlow" and "xla" in f"{self.framework} {self.series}".lower()
                return f"{name} with XLA" if xla else name
        return "other software"

    @property
    def usable(self) -> bool:
        """Whether it says something about GPUs and networks. Some systems are bound by their input
        or their parameter servers, by their authors' words or numbers.
        """
        bound = self.series.endswith("-inputbound") or self.series == "tfguide/aws-dist"
        return not bound and (self.efficiency is None or self.efficiency <= _TOO_FAST)

    @cached_property
    def system(self) -> tuple[object, ...]:
        """What rows have in common that differ only by their number of nodes."""
        return (
            *(self.series, self.model, self.image_size, self.batch_per_gpu, self.precision),
            *(self.framework, self.gpu, self.gpus_per_node, self.link),
        )


def gpu_type(name: str) -> str:
    """Return the type of a GPU without its brand, form and memory: V100 for NVIDIA V100 32 GB.

    The H100 NVL is another GPU than the H100.
    """
    words = [word for word in name.split() if word not in _BRANDS]
    return " ".join(words[:2]) if "NVL" in words[1:2] else words[0]


def generation(gpu: str) -> str:
    """Return the generation of a type of GPU, by which errors and ranges are kept apart."""
    return _GENERATIONS.get(gpu, "other GPUs")


def link_of(gpu: str) -> str:
    """Return the NVLink of a type of GPU, with its generation where it is known."""
    return f"NVLink {_NVLINK[gpu]}" if gpu in _NVLINK else "NVLink"


def read(path: Path) -> tuple[Measurement, ...]:
    """Read a file of measurements.

    Raises:
        UserError: A row lacks its source or date, or has a value that cannot be.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    problems, found = [], []
    for number, row in enumerate(rows, 2):
        try:
            numbers: dict[str, Any] = {
                name: kind(row[name]) if row[name] else None for name, kind in _NUMBERS.items()
            }
            found.append(Measurement(**{**row, **numbers}))
        except (KeyError, TypeError, ValueError) as error:
            problems.append(f"{path}, line {number}: {error}")
    if problems:
        raise UserError("\n".join(problems[:20]))
    return tuple(found)


@cache
def shipped() -> tuple[Measurement, ...]:
    """Return the measurements that come with the project."""
    return read(SHIPPED)


def without(rows: Iterable[Measurement], publisher: str) -> tuple[Measurement, ...]:
    """Return the measurements of all other publishers."""
    return tuple(row for row in rows if row.publisher != publisher)
