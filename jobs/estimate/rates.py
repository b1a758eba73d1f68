"""Images/s of nodes: of their GPUs and network, and within the limits of the input. Pure.

Measured points are used first, then published measurements of the same GPU with the same kind of
software. Limits of the input only ever lower throughput.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, Literal

from infra.catalog.vm_sizes import Size
from jobs import throughput
from jobs.estimate.back_test import CLASSES, Range, published
from jobs.estimate.published import (
    Measurement,
    Network,
    Value,
    gpu_type,
    link_of,
    relative_time,
    two_point,
    work,
)
from jobs.estimate.workload import Workload
from jobs.throughput import Point, Span, words

Basis = Literal["measured", "published", "assumed", "?"]
"""measured: these nodes, by measured points; published: on the same GPU, with this kind of
software; assumed: beyond what was published; ?: not known."""

MEASURE_TWO: Final = "measure two nodes"
DECODING_MS: Final = 1.11
"""CPU time of an image from shard to batch in milliseconds, on one core (docs/benchmarks.md)."""
NETWORK_BINDS: Final = 0.9
"""Share of single-node throughput below which the network counts as what binds."""
_SOURCES: Final = {
    "account": "egress limit of a general-purpose v2 account (Azure documentation, May 2020); for"
    " premium block blobs none is published",
    "NIC": "Azure's page of the series, read in November 2026 (infra/catalog/vm_sizes.py)",
}


@dataclass(frozen=True)
class Ground:
    """Where a number comes from."""

    name: str
    value: str
    formula: str = ""
    source: str = ""
    """With its date."""


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


def rate(workload: Workload, size: Size, nodes: int, points: Sequence[Point] = ()) -> Rate | str:
    """Return the throughput of nodes of a size for a run, or why it is not known.

    Args:
        workload: The run.
        size: VM size.
        nodes: Number of nodes.
        points: Measured points, of any configuration.
    """
    like = throughput.wanted(workload.config, size.name)
    own = {point.nodes: point for point in throughput.alike(points, like)}
    if 1 in own or nodes in own:
        found = _measured(workload, size, nodes, own)
        if found is not None:
            return found
    if nodes > 1 and not size.infiniband:
        return MEASURE_TWO
    return _published(workload, size, nodes)


def _published(workload: Workload, size: Size, nodes: int) -> Rate | str:
    gpu, (fit, _) = gpu_type(size.gpu or ""), published()
    precision = workload.precision_on(gpu)
    same = fit.single(gpu, precision, workload.software)
    if same is None:
        return f"no measurement of one {gpu} with TensorFlow in {precision}"
    one = same.amount / work(workload.model)
    value = f"{same.amount:,.0f} images/s with ResNet-50"
    grounds = [Ground("one GPU", value, _median(same), _sources(same.rows))]
    if workload.model != "ResNet-50":
        grounds.append(
            Ground(
                f"one GPU, {workload.model}",
                f"{one:,.0f} images/s",
                "time grows with multiply-adds to the power of 0.85",
                "chosen on measurements of 2017 to 2021; errors in docs/plan.md",
            )
        )
    a = b = 0.0
    if size.gpus > 1:
        inside = fit.inside(_link(size), precision)
        a = inside.amount
        grounds.append(_loss_ground("loss per doubling of GPUs", inside))
    if nodes > 1:
        between = fit.between("InfiniBand")
        b = between.amount
        grounds.append(_loss_ground("loss per doubling of nodes", between))
    alone = one * size.gpus / relative_time(a, b, size.gpus, 1)
    middle = one * size.gpus * nodes / relative_time(a, b, size.gpus, nodes)
    single = "node" if size.gpus > 1 else "gpu"
    span, ground = _predicted(
        middle,
        "InfiniBand" if nodes > 1 else single,
        alone * nodes,
        single,
        "g n r / (1 + a log2 g + b log2 n)",
    )
    basis: Basis = "assumed" if nodes > 1 else "published"
    return Rate(span, alone, one, basis, (*grounds, ground))


def _measured(workload: Workload, size: Size, nodes: int, own: Mapping[int, Point]) -> Rate | None:
    """Return throughput from measured points; None if they do not reach so far."""
    network: Network = "InfiniBand" if size.infiniband else "TCP"
    fit, precision = published()[0], workload.precision_on(gpu_type(size.gpu or ""))
    a = fit.inside(_link(size), precision).amount if size.gpus > 1 else 0
    alone = relative_time(a, 0, size.gpus, 1)
    first = own[1].middle if 1 in own else own[nodes].middle / nodes
    one_gpu = first * alone / size.gpus
    if nodes in own:
        ground = _point_ground(own[nodes])
        return Rate(Span.of(own[nodes].rates), first, one_gpu, "measured", (ground,))
    grounds = [_point_ground(own[1])]
    if 2 in own:
        middle = nodes / two_point(1 / first, 2 / own[2].middle, nodes)
        name, formula = f"two-{network}", "t(n) = t(1) + (t(2) - t(1)) 2 (n - 1) / n"
        grounds.append(_point_ground(own[2]))
    elif network == "InfiniBand":
        loss = fit.between(network)
        middle = first * nodes * alone / (alone + loss.amount * log2(nodes))
        name, formula = f"node-{network}", "t(n) = t(1) + b log2 n steps of one GPU"
        grounds.append(_loss_ground("loss per doubling of nodes", loss))
    else:
        return None
    span, ground = _predicted(middle, name, first * nodes, None, formula)
    return Rate(span, first, one_gpu, "measured", (*grounds, ground))


def _predicted(
    middle: float, name: str, apart: float, single: str | None, formula: str
) -> tuple[Span, Ground]:
    """Return the range around a prediction, whose ends per node never exceed those of one.

    Args:
        middle: Predicted images/s.
        name: Class of the prediction.
        apart: Images/s of as many nodes without exchange.
        single: Class by which one node is known; None if it was measured.
        formula: How the middle was formed.
    """
    bounds = published()[1][name]
    alone = published()[1][single] if single else Range(1.0, 1.0, 0)
    low = min(middle * bounds.low, apart * alone.low, middle)
    span = Span(low, middle, max(min(middle * bounds.high, apart * alone.high), middle))
    known, predicted = CLASSES[name]
    return span, Ground(
        "throughput",
        words(span, "images/s"),
        f"{formula}, x {bounds.low:.2f} to {bounds.high:.2f}",
        f"5th to 95th percentile of {bounds.rows} published measurements, {known} known,"
        f" {predicted} predicted (docs/plan.md)",
    )


def _link(size: Size) -> str:
    return link_of(gpu_type(size.gpu or "")) if size.link == "NVLink" else "PCIe"


def _median(value: Value) -> str:
    return f"median of {len(value.rows)} measurements: {value.of}"


def _sources(rows: Sequence[Measurement], limit: int = 4) -> str:
    found = list(dict.fromkeys(f"{row.source} ({row.date})" for row in rows))
    more = f"; and {len(found) - limit} more in jobs/estimate/measurements.csv"
    return "; ".join(found[:limit]) + (more if len(found) > limit else "")


def _loss_ground(name: str, value: Value) -> Ground:
    return Ground(name, f"{value.amount:.3f}", _median(value), _sources(value.rows))


def _point_ground(point: Point) -> Ground:
    return Ground(
        f"measured on {point.nodes} x {point.size}",
        words(Span.of(point.rates), "images/s"),
        f"median and range of {len(point.rates)}",
        point.at,
    )


@dataclass(frozen=True)
class Limited:
    """Throughput within the limits of the input."""

    most_epochs: Span
    """Images/s once the data is on the nodes' disks, if it fits there."""
    first_epoch: Span
    """Images/s while the data is read from storage."""
    binds: str
    """GPU, network, CPU or disk; the disk with what limits the reading that it cannot spare."""
    notes: tuple[str, ...]
    grounds: tuple[Ground, ...]


def limited(
    size: Size, nodes: int, found: Rate, workload: Workload, account_gbits: float
) -> Limited:
    """Apply the limits of CPUs, network cards, storage account and disk to a throughput."""
    cpu = size.vcpus / 2 / (DECODING_MS / 1000) * nodes
    per_gbit = 1e9 / 8 / workload.bytes_per_image
    reading = {"account": account_gbits * per_gbit}
    if size.network_gbits is not None:
        reading["NIC"] = size.network_gbits * per_gbit * nodes
    slowest = min(reading, key=lambda name: reading[name])
    fits = size.disk_gib is None or workload.gigabytes * 1e9 <= size.disk_gib * 2**30
    cached = found.images_per_s.capped(cpu)
    first = cached.capped(reading[slowest])
    steady, notes = cached, []
    if not fits:
        steady = first
        notes.append(
            f"{workload.gigabytes:g} GB do not fit on the node's disk of {size.disk_gib} GiB, so"
            " every epoch is read from storage"
        )
    elif first.middle < cached.middle:
        notes.append(f"the {slowest} limits the first epoch to {first.middle:,.0f} images/s")
    full = found.images_per_s.middle
    if steady.middle < cached.middle:
        binds = f"disk ({slowest})"
    elif cached.middle < full:
        binds = "CPU"
    else:
        binds = "network" if full < NETWORK_BINDS * found.single_node * nodes else "GPU"
    each = f"{workload.bytes_per_image / 1000:.0f} KB an image"
    grounds = [
        Ground(
            "limit of the CPUs",
            f"{cpu:,.0f} images/s",
            f"half of {size.vcpus * nodes} vCPUs / {DECODING_MS} ms",
            "docs/benchmarks.md (November 2026); half, as a vCPU may be a hyper-thread",
        )
    ]
    grounds += [
        Ground(f"limit of the {name}", f"{most:,.0f} images/s", each, _SOURCES[name])
        for name, most in reading.items()
    ]
    return Limited(steady, first, binds, tuple(notes), tuple(grounds))
