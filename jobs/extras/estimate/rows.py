"""Measured images/s: published, and the user's own. One row a measurement.

`measurements.csv` has the published rows, all of a ResNet with images of 224 pixels; its columns
are the fields of `Row`.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

from common.errors import UserError
from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from jobs import throughput
from jobs.throughput import Point
from trainer.config import TrainConfig

SHIPPED: Final = Path(__file__).with_name("measurements.csv")
_HALF: Final = ("amp", "bf16")
_PRECISIONS: Final = {"mixed_float16": "amp", "mixed_bfloat16": "bf16"}
_TF32: Final = {"A100", "A30", "A10", "A6000", "A5000", "H100", "H100 NVL", "H200"}
"""GPUs on which TensorFlow computes float32 convolutions as TF32."""
_BRANDS: Final = {"NVIDIA", "Tesla", "Quadro", "RTX", "GeForce"}
_NEAR: Final = 2
"""Factor within which the batch of a GPU counts as alike."""


@dataclass(frozen=True)
class Row:
    """One measurement, or a case to estimate."""

    source: str
    """File of a repository, document or file of points that it was read from."""
    date: str
    """Date of the source: YYYY, YYYY-MM or as in ISO 8601."""
    series: str
    """Publisher and one of its systems, separated by a slash."""
    model: str
    """Such as ResNet-50."""
    batch_per_gpu: int | None
    """Images of a GPU at once; None if the source does not say."""
    precision: str
    """fp32, tf32, amp or bf16."""
    framework: str
    gpu: str
    gpus_per_node: int
    """GPUs that were used on each node."""
    nodes: int
    network: Literal["InfiniBand", "TCP", ""]
    """Between nodes; InfiniBand stands for every network with RDMA. Empty for one node."""
    images_per_s: float
    """Of all GPUs together; NaN in a row that is to be estimated."""
    data: str = "synthetic"
    """synthetic, real, or empty if the source does not say."""
    note: str = ""
    mine: bool = False
    """Whether the user measured it."""

    def __post_init__(self) -> None:
        for name in ("source", "date", "series", "model", "gpu", "framework"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing")
        if self.precision not in ("fp32", "tf32", *_HALF):
            raise ValueError(f"precision {self.precision!r} is not fp32, tf32, amp or bf16")
        if min(self.gpus_per_node, self.nodes, self.batch_per_gpu or 1) < 1 or (
            self.images_per_s <= 0
        ):
            raise ValueError("gpus_per_node, nodes, batch_per_gpu, images_per_s: must be above 0")
        if (self.nodes > 1) != bool(self.network):
            raise ValueError("network: is that between several nodes")

    @property
    def gpus(self) -> int:
        return self.gpus_per_node * self.nodes

    @property
    def of_one_gpu(self) -> float:
        """Images/s of a GPU."""
        return self.images_per_s / self.gpus

    @property
    def shape(self) -> tuple[int, int]:
        """GPUs of a node, and nodes."""
        return self.gpus_per_node, self.nodes

    @property
    def publisher(self) -> str:
        """Who measured it; all rows of a publisher are held out together."""
        return self.series.split("/")[0].rstrip("0123456789")

    @cached_property
    def gpu_type(self) -> str:
        return gpu_type(self.gpu)

    @cached_property
    def software(self) -> str:
        """Kind of software, by which throughput of one GPU differs most."""
        for name in ("MXNet", "PyTorch", "TensorFlow"):
            if name.lower() in self.framework.lower():
                xla = name == "TensorFlow" and "xla" in self.framework.lower()
                return f"{name} with XLA" if xla else name
        return "other software"

    @cached_property
    def kind(self) -> tuple[str, str, str, str]:
        """What rows have in common of which one may be estimated by another. float16 and bfloat16
        have the same peak on every GPU that has both.
        """
        precision = "half" if self.precision in _HALF else self.precision
        return self.gpu_type, precision, self.model, self.software

    def fits(self, wanted: "Row") -> bool:
        """Whether the row may say something of another one."""
        sizes = self.batch_per_gpu, wanted.batch_per_gpu
        near = None in sizes or 1 / _NEAR <= (sizes[0] or 1) / (sizes[1] or 1) <= _NEAR
        return near and self.kind == wanted.kind and self.network in ("", wanted.network)

    def __str__(self) -> str:
        nodes = f"{self.nodes} x " if self.nodes > 1 else ""
        batch = f", batch {self.batch_per_gpu}" if self.batch_per_gpu else ""
        words = f"{nodes}{self.gpus_per_node} x {self.gpu}, {self.precision}{batch}"
        return f"{self.images_per_s:,.0f} images/s: {words}; {self.source} ({self.date})"


def gpu_type(name: str) -> str:
    """Return the type of a GPU without its brand, form and memory: V100 for Tesla V100-SXM2-32GB.

    The H100 NVL differs from the H100.
    """
    words = [word for word in name.replace("-", " ").split() if word not in _BRANDS]
    return " ".join(words[:2]) if "NVL" in words[1:2] else "".join(words[:1])


def read(path: Path) -> tuple[Row, ...]:
    """Read a file of measurements.

    Raises:
        UserError: A row lacks its source or date, or has a value that cannot be.
    """
    problems, rows = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                values: dict[str, Any] = {
                    **row,
                    "batch_per_gpu": int(row["batch_per_gpu"]) if row["batch_per_gpu"] else None,
                    **{name: int(row[name]) for name in ("gpus_per_node", "nodes")},
                    "images_per_s": float(row["images_per_s"]),
                }
                rows.append(Row(**values))
            except (KeyError, TypeError, ValueError) as error:
                problems.append(f"{path}, line {number}: {error}")
    if problems:
        raise UserError("\n".join(problems[:20]))
    return tuple(rows)


@cache
def shipped() -> tuple[Row, ...]:
    """Return the measurements that come with the project."""
    return read(SHIPPED)


def wanted_row(config: TrainConfig, size: Size, nodes: int) -> Row:
    """Return the row of a run on nodes of a size, whose images/s are to be estimated."""
    gpu = gpu_type(size.gpu or "")
    network: Literal["InfiniBand", "TCP"] = "InfiniBand" if size.infiniband else "TCP"
    precision = config.compute.precision
    return Row(
        source="the run",
        date="now",
        series="the run",
        model=throughput.model_name(config),
        batch_per_gpu=config.batch_size // config.optimizer.accumulation,
        precision=_PRECISIONS.get(precision) or ("tf32" if gpu in _TF32 else "fp32"),
        framework="TensorFlow with XLA" if config.compute.xla else "TensorFlow",
        gpu=gpu,
        gpus_per_node=size.gpus,
        nodes=nodes,
        network=network if nodes > 1 else "",
        images_per_s=float("nan"),
    )


def own_rows(points: Iterable[Point], config: TrainConfig) -> list[Row]:
    """Return the rows of the user's measured points that say something of a run, the newest of each
    kind of nodes only.
    """
    newest = {}
    for point in points:
        size = _size_of(point)
        if size is not None and why_not(point, config) is None:
            row = replace(
                wanted_row(config, size, point.nodes),
                source=f"measured on {point.size}",
                date=point.at or "no date",
                gpus_per_node=point.ranks // point.nodes,
                images_per_s=point.middle,
                data=point.data,
                mine=True,
            )
            newest[row.gpu_type, row.shape, row.network] = row
    return list(newest.values())


def why_not(point: Point, config: TrainConfig) -> str | None:
    """Return why a measured point says nothing of a run; None if it does."""
    if not point.usable:
        return point.problem or "it has no rates"
    if _size_of(point) is None:
        return "it names no GPU, and the catalogue has no such size with GPUs"
    return point.difference(throughput.wanted(config, point.size))


def _size_of(point: Point) -> Size | None:
    """Return the VM size of a point, or a size that stands for the machine that it names."""
    gpu, size = (point.environment or {}).get("gpu"), vm_sizes.find(point.size)
    if size is None and gpu is not None and point.nodes == 1:
        return Size(point.size, "", 0, 0, gpus=point.ranks, gpu=gpu)
    return size if size and size.gpu else None
