"""The two forms that are fitted to published measurements.

`doubling`: a step of g GPUs on each of n nodes takes t1 (1 + a log2 g + b log2 n), where t1 is a
step of one GPU, a the loss per doubling of GPUs by link and precision, and b the loss per doubling
of nodes by network and precision. Both are medians of measurements.

`two_point`: once one and two nodes are measured, t(n) = t(1) + (t(2) - t(1)) 2 (n - 1) / n: what a
ring all-reduce adds, whose share of the bytes that each node sends is (n - 1) / n.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log2
from statistics import median
from typing import Final

from jobs.extras.estimate.published import RESNETS, Measurement, Network

DEPTH_EXPONENT: Final = 0.85
"""Time grows with multiply-adds to this power. It was chosen on the published pairs of a ResNet-50
and a deeper ResNet on the same system, whose errors `back_test` shows."""
UNLIKE_OTHERS: Final = "MobileNet"
"""Network whose exchange is too small beside its steps to say much about links."""
HALF: Final = ("amp", "bf16")
"""Precisions whose convolutions run in 16 bits."""
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


_Samples = list[tuple[Measurement, float]]
"""Measurements, each with the value that its median is formed of."""


class Fit:
    """The values of both forms for a set of measurements.

    Args:
        rows: Measurements; those that are not usable are ignored.
    """

    def __init__(self, rows: Iterable[Measurement]) -> None:
        self.rows = tuple(row for row in rows if row.usable)
        self._nodes: dict[tuple[tuple[object, ...], int], list[Measurement]] = {}
        for row in self.rows:
            if row.images_per_s:
                self._nodes.setdefault((row.system, row.nodes), []).append(row)
        self._losses: dict[tuple[str, ...], Value] = {}
        typical = [
            (row, row.efficiency)
            for row in self.rows
            if row.model != UNLIKE_OTHERS and row.efficiency
        ]
        self._inside: _Samples = [
            (row, (1 / efficiency - 1) / log2(row.gpus))
            for row, efficiency in typical
            if row.nodes == 1 and row.gpus > 1
        ]
        self._between: _Samples = [
            (row, (1 / efficiency - inside) / log2(row.nodes))
            for row, efficiency in typical
            if row.network and (inside := self._relative_node(row)) is not None
        ]

    def inside(self, link: str, precision: str) -> Value:
        """Return the loss per doubling of GPUs in a node, never below 0.

        A class with rows of fewer than two publishers gives way to a wider one: link and precision,
        NVLink or PCIe and precision, NVLink or PCIe, all.

        Raises:
            LookupError: There is no measurement of several GPUs.
        """
        if (link, precision) not in self._losses:
            kind = _kind(link)
            exact, wider = (link, precision), (kind, precision)
            self._losses[link, precision] = _loss(
                self._inside,
                (f"{link}, {precision}", lambda row: (row.link, row.precision) == exact),
                (f"{kind}, {precision}", lambda row: (_kind(row.link), row.precision) == wider),
                (kind, lambda row: _kind(row.link) == kind),
                ("any link", lambda _: True),
            )
        return self._losses[link, precision]

    def between(self, network: Network, precision: str) -> Value:
        """Return the loss per doubling of nodes, never below 0: the median of the medians of
        publishers, of whom some have many rows.

        With half precision, steps are shorter and the exchange is not. A class with rows of fewer
        than two publishers gives way to that of the network.

        Raises:
            LookupError: There is no measurement of this network.
        """
        half = precision in HALF
        if (network, str(half)) not in self._losses:
            self._losses[network, str(half)] = _loss(
                self._between,
                (
                    f"{network}, {'half' if half else 'full'} precision",
                    lambda row: row.network == network and (row.precision in HALF) == half,
                ),
                (network, lambda row: row.network == network),
                middle=_of_publishers,
            )
        return self._losses[network, str(half)]

    def batches(self, gpu: str, precision: str) -> tuple[int, int] | None:
        """Return the smallest and the largest batch of a GPU that were measured; None if the
        sources say nothing.
        """
        found = [
            row.batch_per_gpu
            for row in self.rows
            if row.batch_per_gpu and (row.gpu_type, row.precision) == (gpu, precision)
        ]
        return (min(found), max(found)) if found else None

    def single(self, gpu: str, precision: str, software: str | None) -> Value | None:
        """Return images/s of one GPU with ResNet-50 at 224 pixels; None if it was not measured.

        Args:
            gpu: Type of the GPU.
            precision: fp32, tf32 or amp.
            software: Kind of software; None accepts every kind.
        """
        wanted = 1, "ResNet-50", gpu, precision
        found = [
            row
            for row in self.rows
            if row.images_per_s
            and (row.gpus, row.model, row.gpu_type, row.precision) == wanted
            and software in (None, row.software)
        ]
        of = f"one {gpu}, {precision}, {software or 'any software'}"
        rates = [row.images_per_s for row in found if row.images_per_s]
        return Value(median(rates), tuple(found), of) if found else None

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

    def synthetic(self, row: Measurement) -> Measurement | None:
        """Return the measurement with synthetic data of a system that also has one with real data.
        Without networks whose exchange bound them by their author's parameter servers.
        """
        if "real data" not in row.note or row.model not in RESNETS:
            return None
        note = row.note.replace("real data", "synthetic data")
        found = (self._nodes.get((row.system, row.nodes)) or ()) if row.images_per_s else ()
        return next((one for one in found if one.note == note), None)

    def _relative_node(self, row: Measurement) -> float | None:
        """Return the time of a step on one node in steps of one GPU, measured if possible."""
        node = self.whole_node(row)
        if node is not None and node.efficiency:
            return 1 / node.efficiency
        if row.gpus_per_node == 1:
            return 1.0
        try:
            loss = self.inside(row.link, row.precision).amount
        except LookupError:
            return None
        return relative_time(loss, 0, row.gpus_per_node, 1)


def _of_publishers(samples: _Samples) -> float:
    own: dict[str, list[float]] = {}
    for row, amount in samples:
        own.setdefault(row.publisher, []).append(amount)
    return median(map(median, own.values()))


def _of_all(samples: _Samples) -> float:
    return median(amount for _, amount in samples)


def _kind(link: str) -> str:
    """NVLink for every generation that joins all GPUs of a node; PCIe for whatever crosses it."""
    return "NVLink" if link.startswith("NVLink") and link != "NVLink pairs" else "PCIe"


def _loss(
    samples: _Samples,
    *classes: tuple[str, Callable[[Measurement], bool]],
    middle: Callable[[_Samples], float] = _of_all,
) -> Value:
    """Return the median of the first class with rows of enough publishers, or else of the last."""
    for name, belongs in classes:
        found = [(row, amount) for row, amount in samples if belongs(row)]
        enough = len({row.publisher for row, _ in found}) >= _PUBLISHERS
        if enough or (found and name == classes[-1][0]):
            amount = max(middle(found), 0.0)
            return Value(amount, tuple(row for row, _ in found), name)
    raise LookupError(f"nothing was measured of {classes[-1][0]}")
