"""Images/s of nodes before anything of the input limits them. Pure.

Points of a scaling sweep are used first, then published measurements of the same GPU with the same
kind of software.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, Literal

from infra.catalog.vm_sizes import Size
from jobs.planning import points as measured_points
from jobs.planning.back_test import CLASSES, Range
from jobs.planning.measurements import Measurement, Network, gpu_type, link_of
from jobs.planning.points import Point
from jobs.planning.scaling import Fit, Value, relative_time, two_point, work
from jobs.planning.values import Ground, Span, words
from jobs.planning.workload import Workload

Basis = Literal["measured", "published", "assumed", "?"]
"""measured: by a scaling sweep of these nodes; published: on the same GPU, with this kind of
software; assumed: beyond what was published; ?: not known."""

MEASURE_TWO: Final = "measure two nodes"


@dataclass(frozen=True)
class Rate:
    """Throughput before anything of the input limits it."""

    images_per_s: Span
    single_node: float
    """Images/s of one node, in the middle."""
    one_gpu: float
    """Images/s of one GPU, in the middle."""
    basis: Basis
    grounds: tuple[Ground, ...]


class Throughput:
    """Finds the throughput of nodes for one training.

    Args:
        workload: The training.
        fit: Values of the measurements.
        ranges: Ranges of the classes of `back_test.CLASSES`.
        points: Points of a scaling sweep.
    """

    def __init__(
        self,
        workload: Workload,
        fit: Fit,
        ranges: Mapping[str, Range],
        points: Sequence[Point] = (),
    ) -> None:
        self._workload, self._fit, self._ranges, self._points = workload, fit, ranges, points

    def of(self, size: Size, nodes: int) -> Rate | str:
        """Return the throughput of nodes of a size, or why it is not known."""
        own = measured_points.fitting(self._points, self._workload.as_point(size.name))
        if 1 in own or nodes in own:
            found = self._measured(size, nodes, own)
            if found is not None:
                return found
        if nodes > 1 and not size.infiniband:
            return MEASURE_TWO
        return self._published(size, nodes)

    def _published(self, size: Size, nodes: int) -> Rate | str:
        gpu = gpu_type(size.gpu or "")
        precision, software = self._workload.precision_on(gpu), self._workload.software
        same = self._fit.single(gpu, precision, software)
        if same is None:
            return f"no measurement of one {gpu} with TensorFlow in {precision}"
        link = link_of(gpu) if size.link == "NVLink" else "PCIe"
        one = same.amount / work(self._workload.model)
        grounds = [
            Ground(
                "one GPU",
                f"{same.amount:,.0f} images/s with ResNet-50",
                _median(same),
                _sources(same.rows),
            )
        ]
        if self._workload.model != "ResNet-50":
            grounds.append(
                Ground(
                    f"one GPU, {self._workload.model}",
                    f"{one:,.0f} images/s",
                    "time grows with multiply-adds to the power of 0.85",
                    "chosen on measurements of 2017 to 2021; errors in docs/plan.md",
                )
            )
        a = b = 0.0
        if size.gpus > 1:
            inside = self._fit.inside(link, precision)
            a = inside.amount
            grounds.append(_loss_ground("loss per doubling of GPUs", inside))
        if nodes > 1:
            between = self._fit.between("InfiniBand")
            b = between.amount
            grounds.append(_loss_ground("loss per doubling of nodes", between))
        alone = one * size.gpus / relative_time(a, b, size.gpus, 1)
        middle = one * size.gpus * nodes / relative_time(a, b, size.gpus, nodes)
        name = "InfiniBand" if nodes > 1 else "node" if size.gpus > 1 else "gpu"
        span = self._span(middle, name, alone, "node" if size.gpus > 1 else "gpu", nodes)
        grounds.append(
            _range_ground(name, self._ranges[name], span, "g n r / (1 + a log2 g + b log2 n)")
        )
        return Rate(span, alone, one, "assumed" if nodes > 1 else "published", tuple(grounds))

    def _measured(self, size: Size, nodes: int, own: Mapping[int, Point]) -> Rate | None:
        """Return throughput from measured points; None if they do not reach so far."""
        network: Network = "InfiniBand" if size.infiniband else "TCP"
        first = own[1].middle if 1 in own else own[nodes].middle / nodes
        one_gpu = first * self._relative_node(size) / size.gpus
        if nodes in own:
            rates = Span(*measured_points.span(own[nodes].rates))
            ground = _point_ground(own[nodes])
            return Rate(rates, first, one_gpu, "measured", (ground,))
        if 2 in own:
            time = two_point(1 / first, 2 / own[2].middle, nodes)
            middle, name = nodes / time, f"two-{network}"
            formula = "t(n) = t(1) + (t(2) - t(1)) 2 (n - 1) / n"
            grounds = [_point_ground(own[1]), _point_ground(own[2])]
        elif network == "InfiniBand":
            loss = self._fit.between(network)
            alone = self._relative_node(size)
            grown = alone + loss.amount * log2(nodes)
            middle, name = first * nodes * alone / grown, f"node-{network}"
            formula = "t(n) = t(1) + b log2 n steps of one GPU"
            grounds = [_point_ground(own[1]), _loss_ground("loss per doubling of nodes", loss)]
        else:
            return None
        span = self._span(middle, name, first, None, nodes)
        grounds.append(_range_ground(name, self._ranges[name], span, formula))
        return Rate(span, first, one_gpu, "measured", tuple(grounds))

    def _relative_node(self, size: Size) -> float:
        gpu = gpu_type(size.gpu or "")
        link = link_of(gpu) if size.link == "NVLink" else "PCIe"
        a = self._fit.inside(link, self._workload.precision_on(gpu)).amount if size.gpus > 1 else 0
        return relative_time(a, 0, size.gpus, 1)

    def _span(
        self, middle: float, name: str, node: float, node_name: str | None, nodes: int
    ) -> Span:
        """Return the range around a prediction, whose ends per node never exceed those of one."""
        bounds = self._ranges[name]
        alone = self._ranges[node_name] if node_name else Range(1.0, 1.0, 0)
        low = min(middle * bounds.low, node * alone.low * nodes, middle)
        high = max(min(middle * bounds.high, node * alone.high * nodes), middle)
        return Span(low, middle, high)


def _median(value: Value) -> str:
    return f"median of {len(value.rows)} measurements: {value.of}"


def _sources(rows: Sequence[Measurement], limit: int = 4) -> str:
    found = list(dict.fromkeys(f"{row.source} ({row.date})" for row in rows))
    more = f"; and {len(found) - limit} more in jobs/planning/measurements.csv"
    return "; ".join(found[:limit]) + (more if len(found) > limit else "")


def _loss_ground(name: str, value: Value) -> Ground:
    return Ground(name, f"{value.amount:.3f}", _median(value), _sources(value.rows))


def _range_ground(name: str, bounds: Range, span: Span, formula: str) -> Ground:
    known, predicted = CLASSES[name]
    return Ground(
        "throughput",
        words(span, "images/s"),
        f"{formula}, x {bounds.low:.2f} to {bounds.high:.2f}",
        f"5th to 95th percentile of {bounds.rows} published measurements, {known} known,"
        f" {predicted} predicted (docs/plan.md)",
    )


def _point_ground(point: Point) -> Ground:
    low, middle, high = measured_points.span(point.rates)
    return Ground(
        f"measured on {point.nodes} x {point.size}",
        words(Span(low, middle, high), "images/s"),
        f"median and range of {len(point.rates)}",
        point.at,
    )
