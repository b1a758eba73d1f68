"""Images/s of nodes: of their GPUs and network, and within the limits of the input. Pure.

Measured points are used first, then published measurements of the same GPU with the same kind of
software, then what can be assumed of GPUs without any. Limits of the input only lower throughput.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Final, Literal

from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from jobs import throughput
from jobs.estimate.back_test import CLASSES, Key, Range, published
from jobs.estimate.published import (
    HALF,
    Fit,
    Measurement,
    Network,
    Value,
    at_batch,
    generation,
    gpu_type,
    link_of,
    relative_time,
    two_point,
    work,
)
from jobs.estimate.workload import Workload
from jobs.throughput import Point, Span, words

Basis = Literal["measured", "published", "assumed", "?"]
"""measured: by measured points; published: by measurements of this GPU with this kind of software;
assumed: of this GPU there are none, or with other software alone; ?: not known."""

MEASURE_TWO: Final = "measure two nodes"
NETWORK_BINDS: Final = 0.9
"""Share of single-node throughput below which the network counts as what binds."""
REAL_DATA: Final = 0.93
"""Low end of throughput with real data in that with synthetic data: pairs on V100s lost 3 to 7 %.
The published pairs are of slower GPUs, on which reading limits less."""
_SOURCES: Final = {
    "account": "egress limit of a general-purpose v2 account (Azure documentation, May 2020); for"
    " premium block blobs none is published",
    "NIC": "Azure's page of the series, read in November 2026 (infra/catalog/vm_sizes.py)",
}
SPECIFICATIONS: Final = {
    "V100": (900, 125.0, 15.7),
    "A100": (1_555, 312.0, 156.0),
    "T4": (320, 65.0, 8.1),
    "A10": (600, 125.0, 62.5),
    "H100": (3_350, 989.0, 494.5),
    "H100 NVL": (3_900, 835.0, 417.5),
    "H200": (4_800, 989.0, 494.5),
}
"""Memory bandwidth in GB/s, and TFLOP/s in half and in full precision (TF32 where the GPU has it,
without sparsity), as NVIDIA's data sheets give them."""
_REFERENCES: Final = ("V100", "A100")
"""GPUs of which several kinds of software were measured."""


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
    key: Key
    """Class of the prediction."""
    grounds: tuple[Ground, ...]


@dataclass(frozen=True)
class _Losses:
    """Time of a step in steps of one GPU."""

    inside: Value | None
    between: Value | None
    scale: float
    """Step of one GPU at the batch of the measurements, in one at the run's batch: the exchange
    takes its time whatever the batch."""

    def time(self, gpus: int, nodes: int) -> float:
        a, b = (one.amount * self.scale if one else 0.0 for one in (self.inside, self.between))
        return relative_time(a, b, gpus, nodes)

    @property
    def grounds(self) -> list[Ground]:
        names = ("loss per doubling of GPUs", "loss per doubling of nodes")
        pairs = zip(names, (self.inside, self.between), strict=True)
        return [
            Ground(name, f"{one.amount:.3f}", _median(one), _sources(one.rows))
            for name, one in pairs
            if one
        ]


def rate(workload: Workload, size: Size, nodes: int, points: Sequence[Point] = ()) -> Rate | str:
    """Return the throughput of nodes of a size for a run, or why it is not known.

    Args:
        workload: The run.
        size: VM size.
        nodes: Number of nodes.
        points: Measured points, of any configuration; see `unused`.
    """
    gpu = gpu_type(size.gpu or "")
    problem = workload.memory_problem(memory_gb(size))
    if problem:
        return problem
    fitting = [point for point in points if _why_not(point, workload) is None]
    own = {
        point.nodes: point
        for point in fitting
        if point.size.lower() == size.name.lower() and point.ranks == size.gpus * point.nodes
    }
    if own:
        found = _from_nodes(workload, size, nodes, own)
        if found is not None:
            return found
    if nodes > 1 and not size.infiniband:
        return MEASURE_TWO
    single = [
        point for point in fitting if point.nodes == 1 and _gpu_of(point) == gpu and point.rates
    ]
    if single and not own:
        return _from_gpu(workload, size, nodes, min(reversed(single), key=lambda one: one.ranks))
    return _cold(workload, size, nodes)


def unused(points: Sequence[Point], workload: Workload) -> list[str]:
    """Return every point that no line of a plan uses, with the reason."""
    newest = {(one.size.lower(), one.nodes, one.ranks): one for one in points
              if _why_not(one, workload) is None}  # fmt: skip
    found = []
    for point in points:
        reason = _why_not(point, workload)
        if reason is None and newest[point.size.lower(), point.nodes, point.ranks] is not point:
            reason = "a newer point is used"
        if reason is not None:
            name = point.size.removeprefix("Standard_")
            found.append(f"{name}, {point.nodes} x {point.ranks // point.nodes} ranks"
                         f"{', ' + point.at if point.at else ''}: {reason}")  # fmt: skip
    return found


def memory_gb(size: Size) -> float:
    """Return the memory of a GPU of a size, which the catalogue has in its name, in GB."""
    return float((size.gpu or "0 GB").split()[-2])


def _gpu_of(point: Point) -> str | None:
    size = vm_sizes.find(point.size)
    return gpu_type(size.gpu) if size and size.gpu else None


def _why_not(point: Point, workload: Workload) -> str | None:
    """Return why a point says nothing of a run; None if it may."""
    like = throughput.wanted(workload.config, point.size)
    if not point.usable:
        return point.problem or "it has no rates"
    if _gpu_of(point) is None:
        return "the catalogue has no such size with GPUs"
    named = {
        "network": (point.model, like.model),
        "precision": (point.precision, like.precision),
        "image size": (point.image_size, like.image_size),
        "batch of a rank": (point.batch_per_rank, like.batch_per_rank),
        "micro-batches": (point.accumulation, like.accumulation),
        "data": (point.data, like.data),
    }
    for name, (has, wants) in named.items():
        if has != wants:
            return f"{name} {has}, not {wants}"
    if None not in (point.xla, like.xla) and point.xla != like.xla:
        return f"{'with' if point.xla else 'without'} XLA"
    return None


def _key(kind: str, workload: Workload, size: Size) -> Key:
    gpu = gpu_type(size.gpu or "")
    return kind, generation(gpu), workload.precision_on(gpu)


def _losses(workload: Workload, size: Size, *, between: bool, scale: float = 1.0) -> _Losses:
    fit, precision = published()[0], workload.precision_on(gpu_type(size.gpu or ""))
    precision = "amp" if precision == "bf16" else precision
    return _Losses(
        fit.inside(_link(size), precision) if size.gpus > 1 else None,
        fit.between("InfiniBand", precision) if between else None,
        scale,
    )


def _from_nodes(workload: Workload, size: Size, nodes: int, own: dict[int, Point]) -> Rate | None:
    """Return throughput from measured nodes of this size; None if they do not reach so far."""
    network: Network = "InfiniBand" if size.infiniband else "TCP"
    losses = _losses(workload, size, between=size.infiniband)
    nearest = max((count for count in own if count <= nodes), default=min(own))
    point = own.get(nodes, own[nearest])
    first = (
        own[1].middle
        if 1 in own
        else point.middle
        / point.nodes
        * (losses.time(size.gpus, point.nodes) / losses.time(size.gpus, 1))
    )
    one_gpu = first * losses.time(size.gpus, 1) / size.gpus
    grounds = [_point_ground(point)]
    if nodes in own:
        key = _key("data", workload, size)
        middle, formula = point.middle, "as measured"
    elif 1 in own and 2 in own and nodes > 2:
        key = _key(f"two-{network}", workload, size)
        middle = nodes / two_point(1 / first, 2 / own[2].middle, nodes)
        formula = "t(n) = t(1) + (t(2) - t(1)) 2 (n - 1) / n"
        grounds = [_point_ground(own[1]), _point_ground(own[2])]
    elif size.infiniband:
        key = _key(f"node-{network}", workload, size)
        times = losses.time(size.gpus, point.nodes) / losses.time(size.gpus, nodes)
        middle = point.middle / point.nodes * nodes * times
        formula = "t(n) = t(1) + b log2 n steps of one GPU"
        grounds += losses.grounds
    else:
        return None
    span, ground = _predicted(middle, key, formula, point if nodes in own else None)
    return Rate(span, first, one_gpu, "measured", key, (*grounds, ground))


def _from_gpu(workload: Workload, size: Size, nodes: int, point: Point) -> Rate:
    """Return throughput from fewer GPUs of the same type, of any size."""
    losses = _losses(workload, size, between=nodes > 1)
    one = point.middle / point.ranks * losses.time(point.ranks, 1)
    count = size.gpus * nodes
    kind = "data" if count == point.ranks else "gpu-InfiniBand" if nodes > 1 else "gpu-node"
    key = _key(kind, workload, size)
    span, ground = _predicted(
        one * count / losses.time(size.gpus, nodes), key, "g n r / (1 + a log2 g + b log2 n)"
    )
    alone = one * size.gpus / losses.time(size.gpus, 1)
    found = (_point_ground(point), *losses.grounds, ground)
    return Rate(span, alone, one, "measured", key, found)


def _cold(workload: Workload, size: Size, nodes: int) -> Rate | str:
    """Return throughput by published measurements, or by what can be assumed of the GPU."""
    gpu, (fit, _) = gpu_type(size.gpu or ""), published()
    precision = workload.precision_on(gpu)
    if precision == "bf16" and generation(gpu) in ("before Volta", "Volta", "Turing"):
        return f"{gpu} has no unit for bfloat16"
    batches = fit.batches(gpu, precision) or fit.batches("A100", "amp")
    micro = workload.micro_batch
    if batches and not batches[0] / 2 <= micro <= batches[1] * 2:
        return (
            f"{micro:,} images at once: measured were {batches[0]:,} to {batches[1]:,} on a {gpu},"
            " and nothing is said below half and above twice of that"
        )
    same = fit.single(gpu, precision, workload.software)
    if same is not None:
        basis: Basis = "published"
        value = f"{same.amount:,.0f} images/s with ResNet-50"
        bounds, grounds = Span(*[same.amount] * 3), [
            Ground("one GPU", value, _median(same), _sources(same.rows))
        ]  # fmt: skip
        known = [row.batch_per_gpu for row in same.rows if row.batch_per_gpu]
    else:
        basis, known = "assumed", []
        found = assumed(fit, gpu, precision, workload.software)
        if isinstance(found, str):
            return found
        bounds, grounds = found
    usual = median(known) if known else float(micro)
    fixed = fit.fixed(precision)
    ones = bounds.scaled(1 / work(workload.model))
    if workload.model != "ResNet-50":
        grounds.append(
            Ground(
                f"one GPU, {workload.model}",
                f"{ones.middle:,.0f} images/s",
                "time grows with multiply-adds to the power of 0.85",
                "chosen on measurements of 2017 to 2021; errors in docs/plan.md",
            )
        )
    one = at_batch(ones.middle, usual, micro, fixed.amount)
    if usual != micro:
        grounds.append(
            Ground(
                f"one GPU, {micro} images at once",
                f"{one:,.0f} images/s",
                f"a step has {1000 * fixed.amount:.0f} ms that do not grow with its images, at most"
                f" half of it; measured at {usual:g}",
                f"{_median(fixed)}; {_sources(fixed.rows)}",
            )
        )
    # The exchange is once in an update of all micro-batches.
    step = usual / ones.middle / (workload.batch_per_gpu / one)
    losses = _losses(workload, size, between=nodes > 1, scale=step)
    time, count = losses.time(size.gpus, nodes), size.gpus * nodes
    kind = "InfiniBand" if nodes > 1 else "node" if size.gpus > 1 else "gpu"
    key, middle = _key(kind, workload, size), one * count / time
    span, ground = _predicted(middle, key, "g n r / (1 + a log2 g + b log2 n)")
    if basis == "assumed":
        span = Span(
            span.low * bounds.low / bounds.middle,
            middle,
            span.high * bounds.high / bounds.middle,
        )
        ground = Ground("throughput", words(span, "images/s"), f"{ground.formula}, of the ends"
                        " that are assumed of one GPU", ground.source)  # fmt: skip
    alone = one * size.gpus / losses.time(size.gpus, 1)
    return Rate(span, alone, one, basis, key, (*grounds, *losses.grounds, ground))


def assumed(fit: Fit, gpu: str, precision: str, software: str) -> tuple[Span, list[Ground]] | str:
    """Return images/s of one GPU with ResNet-50 of which nothing was measured with this software.

    Rows of the GPU with other software are multiplied by the ratio of that software on V100 and
    A100; memory bandwidth and FLOP/s, in those of V100 and A100, bound it from both sides.
    """
    if precision == "bf16":
        same = fit.single(gpu, "amp", software)
        if same is not None:
            text = "as in float16, whose units have the same FLOP/s"
            ground = Ground("one GPU", f"{same.amount:,.0f} images/s", text, _sources(same.rows))
            return Span(*[same.amount] * 3), [ground]
    if gpu not in SPECIFICATIONS:
        return f"no measurement of one {gpu} with TensorFlow in {precision}"
    sheet, column = SPECIFICATIONS[gpu], 1 if precision in HALF else 2
    bounds: list[float] = []
    for reference in _REFERENCES:
        other = SPECIFICATIONS[reference]
        there = "amp" if precision in HALF else "tf32" if reference == "A100" else "fp32"
        value = fit.single(reference, there, software)
        if value is not None and (precision in HALF or generation(gpu) != "Turing" or
                                  reference == "V100"):  # fmt: skip
            bounds += [value.amount * sheet[at] / other[at] for at in (0, column)]
    if not bounds:
        return f"no measurement to assume anything of one {gpu} in {precision} from"
    low, high = min(bounds), max(bounds)
    grounds = [
        Ground(
            "one GPU",
            f"{low:,.0f} to {high:,.0f} images/s with ResNet-50",
            f"{' and '.join(_REFERENCES)} x memory bandwidth and x TFLOP/s in theirs:"
            f" {sheet[0]:,} GB/s, {sheet[column]:g}",
            "assumed: no measurement; data sheets of NVIDIA, as of 2026",
        )
    ]
    middle = sqrt(low * high)
    found = _by_other_software(fit, gpu, "amp" if precision == "bf16" else precision, software)
    if found is not None:
        value, ratios = found
        near = [min(max(value.amount * ratio, low), high) for ratio in ratios]
        low, middle, high = min(near), sqrt(min(near) * max(near)), max(near)
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        grounds.append(
            Ground(
                "one GPU",
                f"{middle:,.0f} images/s with ResNet-50",
                f"{value.amount:,.0f} of {value.of} x {shown}, the ratio of {software} on"
                f" {' and '.join(_REFERENCES)}, within the bounds above",
                f"assumed; {_sources(value.rows)}",
            )
        )
    return Span(low, middle, high), grounds


def _by_other_software(
    fit: Fit, gpu: str, precision: str, software: str
) -> tuple[Value, list[float]] | None:
    """Return images/s of a GPU in a whole node with other software, and the ratios to this one."""

    def each(kind: str, name: str) -> list[tuple[Measurement, float]]:
        wanted = 1, "ResNet-50", kind, precision, name
        return [
            (row, row.images_per_s / row.gpus)
            for row in fit.rows
            if row.images_per_s
            and (row.nodes, row.model, row.gpu_type, row.precision, row.software) == wanted
            and row.gpus == 8
        ]

    for name in sorted({row.software for row in fit.rows if row.gpu_type == gpu}):
        rows = each(gpu, name)
        ratios = [
            median(one for _, one in mine) / median(one for _, one in its)
            for kind in _REFERENCES
            if (mine := each(kind, software)) and (its := each(kind, name))
        ]
        if rows and ratios:
            # One GPU for itself is faster than one of a node.
            loss = relative_time(fit.inside(link_of(gpu), precision).amount, 0, 8, 1)
            amount = median(one for _, one in rows) * loss
            return Value(amount, tuple(row for row, _ in rows), f"{name} on a node"), ratios
    return None


def _predicted(
    middle: float, key: Key, formula: str, point: Point | None = None
) -> tuple[Span, Ground]:
    """Return the range around a prediction: the one that held left-out rows of its class.

    Args:
        middle: Predicted images/s.
        key: Class of the prediction.
        formula: How the middle was formed.
        point: The measured point of just these nodes, whose repeats lie in the range.
    """
    ranges = published()[1]
    bounds = ranges.of(key) or Range(0.5, 2.0, 0, 0)
    real = ranges.of(_real(key)) or Range(1.0, 1.0, 0, 0)
    if key[0] == "data":
        bounds = Range(min(bounds.low, REAL_DATA), max(bounds.high, 1.0), *_counts(bounds))
    elif "-" in key[0]:
        # Points have synthetic data, and runs have real data.
        gap = Range(min(real.low, REAL_DATA), max(real.high, 1.0), *_counts(real))
        bounds = bounds.also(gap)
    rates = point.rates if point else (middle,)
    low, high = min(bounds.low * middle, *rates), max(bounds.high * middle, *rates)
    span = Span(low, middle, high)
    known, predicted = CLASSES[key[0]]
    return span, Ground(
        "throughput",
        words(span, "images/s"),
        f"{formula}, x {low / middle:.2f} to {high / middle:.2f}",
        f"5th to 95th percentile of {key[1]}, {key[2]}: {known} known, {predicted} predicted;"
        f" {bounds.rows} published measurements, {bounds.publishers} publishers (docs/plan.md)",
    )


def _real(key: Key) -> Key:
    return "data", key[1], key[2]


def _counts(bounds: Range) -> tuple[int, int]:
    return bounds.rows, bounds.publishers


def _link(size: Size) -> str:
    return link_of(gpu_type(size.gpu or "")) if size.link == "NVLink" else "PCIe"


def _median(value: Value) -> str:
    return f"median of {len(value.rows)} measurements: {value.of}"


def _sources(rows: Sequence[Measurement], limit: int = 4) -> str:
    found = list(dict.fromkeys(f"{row.source} ({row.date})" for row in rows))
    more = f"; and {len(found) - limit} more in jobs/estimate/measurements.csv"
    return "; ".join(found[:limit]) + (more if len(found) > limit else "")


def _point_ground(point: Point) -> Ground:
    return Ground(
        f"measured on {point.nodes} x {point.size}, {point.ranks} ranks",
        words(Span.of(point.rates), "images/s"),
        f"median and range of {len(point.rates)}",
        point.at or "no time is noted, 2026",
    )


@cache
def decoding() -> dict[str, float | str]:
    """Return the coefficients of the CPU time of an image, as `benchmarks decoding` wrote them."""
    found: dict[str, float | str] = json.loads(
        Path(__file__).with_name("decoding.json").read_text(encoding="utf-8")
    )
    return found


def decoding_ms(megapixels: float, megabytes: float) -> float:
    """Return the CPU time of decoding, cropping and resizing an image, in milliseconds."""
    base, pixels, size = (
        float(decoding()[name]) for name in ("base_ms", "ms_per_megapixel", "ms_per_megabyte")
    )
    return base + pixels * megapixels + size * megabytes


@dataclass(frozen=True)
class Limited:
    """Throughput within the limits of the input."""

    steady: Span
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
    data = workload.data
    each = decoding_ms(data.megapixels, data.bytes_per_image / 1e6)
    cpu = size.vcpus / 2 / (each / 1000) * nodes
    per_gbit = 1e9 / 8 / data.bytes_per_image
    reading = {"account": account_gbits * per_gbit}
    if size.network_gbits is not None:
        reading["NIC"] = size.network_gbits * per_gbit * nodes
    slowest = min(reading, key=lambda name: reading[name])
    fits = size.disk_gib is None or data.gigabytes * 1e9 <= size.disk_gib * 2**30
    cached = found.images_per_s.capped(cpu)
    first = cached.capped(reading[slowest])
    steady, notes = cached, []
    if not fits:
        steady = first
        notes.append(
            f"{data.gigabytes:g} GB do not fit on the node's disk of {size.disk_gib} GiB, so every"
            " epoch is read from storage"
        )
    elif first.middle < cached.middle:
        notes.append(f"the {slowest} limits reading from storage to {first.middle:,.0f} images/s")
    full = found.images_per_s.middle
    if steady.middle < cached.middle:
        binds = f"disk ({slowest})"
    elif cached.middle < full:
        binds = "CPU"
    else:
        binds = "network" if full < NETWORK_BINDS * found.single_node * nodes else "GPU"
    told = decoding()
    size_of_one = f"{data.bytes_per_image / 1000:.0f} KB an image"
    grounds = [
        Ground(
            "limit of the CPUs",
            f"{cpu:,.0f} images/s",
            f"half of {size.vcpus * nodes} vCPUs / {each:.2f} ms, for {size_of_one} and"
            f" {data.megapixels:.2g} megapixels",
            f"{told['source']}, {told['date']}; half, as a vCPU may be a hyper-thread",
        )
    ]
    grounds += [
        Ground(f"limit of the {name}", f"{most:,.0f} images/s", size_of_one, _SOURCES[name])
        for name, most in reading.items()
    ]
    return Limited(steady, first, binds, tuple(notes), tuple(grounds))


def epochs_from_storage(epochs: float, nodes: int) -> float:
    """Return the epochs' worth of images that are read from storage although disks hold the data.

    The order deals shards anew every epoch, so that a node finds 1 - (1 - 1/n)^e of its shards on
    its own disk after e epochs.
    """
    if nodes == 1:
        return min(epochs, 1.0)
    kept = 1 - 1 / nodes
    return float(min(epochs, nodes * (1 - kept**epochs)))
