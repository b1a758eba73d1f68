"""How throughput grows with GPUs and nodes: two forms, fitted by medians to measurements. Pure.

`doubling`: a step of g GPUs on each of n nodes takes t1 (1 + a log2 g + b log2 n), where t1 is a
step of one GPU, a the loss per doubling of GPUs by link and precision, and b the loss per doubling
of nodes by network.

`two_point`: once one and two nodes are measured, t(n) = t(1) + (t(2) - t(1)) 2 (n - 1) / n: what a
ring all-reduce adds, whose share of the bytes that each node sends is (n - 1) / n.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Final

from jobs.planning.measurements import Measurement, Network

RESNETS: Final[Mapping[str, float]] = {"ResNet-50": 4.09, "ResNet-101": 7.80, "ResNet-152": 11.51}
"""Billions of multiply-adds of an image of 224 pixels (ResNet v1.5), of the networks that can be
predicted."""
DEPTH_EXPONENT: Final = 0.85
"""Time grows with multiply-adds to this power. It was chosen on the published pairs of a ResNet-50
and a deeper ResNet on the same system, whose errors docs/plan.md shows."""
UNLIKE_OTHERS: Final = "MobileNet"
"""Network whose exchange is too small beside its steps to say much about links."""
_PUBLISHERS: Final = 2
"""Publishers of whom a class needs rows: those of one differ from others as a whole."""


def relative_time(a: float, b: float, gpus: int, nodes: int) -> float:
    """Return the time of a step in steps of one GPU, by the form `doubling`.

    Args:
        a: Loss per doubling of GPUs in a node.
        b: Loss per doubling of nodes.
        gpus: GPUs of each node.
        nodes: Nodes.
    """
    return 1 + a * log2(gpus) + b * log2(nodes)


def two_point(one: float, two: float, nodes: int) -> float:
    """Return the time of a step on any number of nodes from those on one and on two.

    A second step that is faster than the first counts as equal, so that images/s of a node never
    rise with nodes.
    """
    return one + (max(two, one) - one) * 2 * (nodes - 1) / nodes


def work(model: str) -> float:
    """Return the time of an image in those of ResNet-50.

    Raises:
        KeyError: Nothing is known of the network.
    """
    return float((RESNETS[model] / RESNETS["ResNet-50"]) ** DEPTH_EXPONENT)


@dataclass(frozen=True)
class Value:
    """A median of measurements."""

    amount: float
    rows: tuple[Measurement, ...]
    """What it is the median of."""
    of: str
    """What these have in common."""


@dataclass(frozen=True)
class _Sample:
    row: Measurement
    amount: float


class Fit:
    """The values of both forms for a set of measurements.

    Args:
        rows: Measurements; those that are not usable are ignored.
    """

    def __init__(self, rows: Iterable[Measurement]) -> None:
        self.rows = tuple(row for row in rows if row.usable)
        self._nodes = _whole_nodes(self.rows)
        self._losses: dict[tuple[str, str], Value] = {}
        typical = [row for row in self.rows if row.model != UNLIKE_OTHERS and row.efficiency]
        self._inside = [
            _Sample(row, (1 / row.efficiency - 1) / log2(row.gpus))
            for row in typical
            if row.efficiency and row.nodes == 1 and row.gpus > 1
        ]
        self._between = [
            _Sample(row, (1 / row.efficiency - inside) / log2(row.nodes))
            for row in typical
            if row.efficiency and row.network and (inside := self._relative_node(row)) is not None
        ]
        self._single = [
            _Sample(row, row.images_per_s)
            for row in self.rows
            if row.images_per_s and row.gpus == 1 and row.model == "ResNet-50"
        ]

    def inside(self, link: str, precision: str) -> Value:
        """Return the loss per doubling of GPUs in a node, never below 0.

        A class with rows of fewer than two publishers gives way to a wider one: link and precision,
        NVLink or PCIe and precision, NVLink or PCIe, all.

        Raises:
            LookupError: There is no measurement of several GPUs.
        """
        if (link, precision) in self._losses:
            return self._losses[link, precision]
        kind = _kind(link)
        classes: list[tuple[str, Callable[[Measurement], bool]]] = [
            (f"{link}, {precision}", lambda r: (r.link, r.precision) == (link, precision)),
            (f"{kind}, {precision}", lambda r: (_kind(r.link), r.precision) == (kind, precision)),
            (kind, lambda r: _kind(r.link) == kind),
            ("any link", lambda _: True),
        ]
        found = _loss(self._inside, classes)
        self._losses[link, precision] = found
        return found

    def between(self, network: Network) -> Value:
        """Return the loss per doubling of nodes, never below 0.

        Raises:
            LookupError: There is no measurement of this network.
        """
        if (network, "") not in self._losses:
            classes = [(network, lambda r: r.network == network)]
            self._losses[network, ""] = _loss(self._between, classes)
        return self._losses[network, ""]

    def single(self, gpu: str, precision: str, software: str | None) -> Value | None:
        """Return images/s of one GPU with ResNet-50 at 224 pixels; None if it was not measured.

        Args:
            gpu: Type of the GPU.
            precision: fp32, tf32 or amp.
            software: Kind of software; None accepts every kind.
        """
        found = [
            sample
            for sample in self._single
            if (sample.row.gpu_type, sample.row.precision) == (gpu, precision)
            and software in (None, sample.row.software)
        ]
        if not found:
            return None
        of = f"one {gpu}, {precision}, {software or 'any software'}"
        return Value(median(s.amount for s in found), tuple(s.row for s in found), of)

    def whole_node(self, row: Measurement, nodes: int = 1) -> Measurement | None:
        """Return the measurement of the same system on one node, or another number of nodes."""
        found = self._nodes.get((row.system, nodes), ())
        return next((one for one in found if one.note == row.note), next(iter(found), None))

    def shallow(self, row: Measurement) -> Measurement | None:
        """Return the measurement of ResNet-50 on the same GPU, with the same software."""

        def kind(one: Measurement) -> tuple[object, ...]:
            system = one.series, one.precision, one.framework, one.gpu, one.image_size, one.link
            return *system, one.gpus, one.note

        found = (one for one in self.rows if one.model == "ResNet-50" and kind(one) == kind(row))
        return next(found, None)

    def _relative_node(self, row: Measurement) -> float | None:
        """Return the time of a step on one node in steps of one GPU, measured if possible."""
        node = self.whole_node(row)
        if node is not None and node.efficiency:
            return 1 / node.efficiency
        if row.gpus_per_node == 1:
            return 1.0
        try:
            return relative_time(
                self.inside(row.link, row.precision).amount, 0, row.gpus_per_node, 1
            )
        except LookupError:
            return None


def _whole_nodes(
    rows: Sequence[Measurement],
) -> dict[tuple[tuple[object, ...], int], list[Measurement]]:
    found: dict[tuple[tuple[object, ...], int], list[Measurement]] = {}
    for row in rows:
        if row.images_per_s:
            found.setdefault((row.system, row.nodes), []).append(row)
    return found


def _kind(link: str) -> str:
    """NVLink for every generation that joins all GPUs of a node; PCIe for whatever crosses it."""
    return "NVLink" if link.startswith("NVLink") and link != "NVLink pairs" else "PCIe"


def _loss(
    samples: Sequence[_Sample], classes: Sequence[tuple[str, Callable[[Measurement], bool]]]
) -> Value:
    for index, (name, belongs) in enumerate(classes):
        found = [sample for sample in samples if belongs(sample.row)]
        publishers = {sample.row.publisher for sample in found}
        if len(publishers) >= _PUBLISHERS or (found and index == len(classes) - 1):
            amount = max(median(sample.amount for sample in found), 0.0)
            return Value(amount, tuple(sample.row for sample in found), name)
    raise LookupError(f"nothing was measured of {classes[-1][0]}")
