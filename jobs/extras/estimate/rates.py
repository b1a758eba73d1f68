"""Images/s of nodes: of their GPUs and network. Pure.

Measured points are used first, then published measurements of the same GPU with the same kind of
software, then what can be assumed of GPUs without any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from infra.catalog import vm_sizes
from infra.catalog.vm_sizes import Size
from jobs import throughput
from jobs.extras.estimate.assumed import assumed
from jobs.extras.estimate.back_test import CLASSES, Key, Range, published
from jobs.extras.estimate.fit import Value, relative_time, two_point, work
from jobs.extras.estimate.grounds import Basis, Ground, Rate, median_of, sources
from jobs.extras.estimate.published import Network, generation, gpu_type, link_of
from jobs.extras.estimate.workload import Workload
from jobs.throughput import Point, Span, words

MEASURE_TWO: Final = "measure two nodes"
REAL_DATA: Final = 0.93
"""Low end of throughput with real data in that with synthetic data: pairs on V100s lost 3 to 7 %.
The published pairs are of slower GPUs, on which reading limits less."""


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
            Ground(name, f"{one.amount:.3f}", median_of(one), sources(one.rows))
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
            Ground("one GPU", value, median_of(same), sources(same.rows))
        ]  # fmt: skip
        known = [row.batch_per_gpu for row in same.rows if row.batch_per_gpu]
    else:
        basis, known = "assumed", []
        found = assumed(fit, gpu, precision, workload.software)
        if isinstance(found, str):
            return found
        bounds, grounds = found
    usual = median(known) if known else float(micro)
    ones = bounds.scaled(1 / work(workload.model))
    if workload.model != "ResNet-50":
        grounds.append(
            Ground(
                f"one GPU, {workload.model}",
                f"{ones.middle:,.0f} images/s",
                "time grows with multiply-adds to the power of 0.85",
                "chosen on measurements of 2017 to 2021; `back_test` shows the errors",
            )
        )
    one = ones.middle
    # The exchange is once in an update of all micro-batches, and takes its time whatever the batch.
    scale = usual / workload.batch_per_gpu
    losses = _losses(workload, size, between=nodes > 1, scale=scale)
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


def _point_ground(point: Point) -> Ground:
    return Ground(
        f"measured on {point.nodes} x {point.size}, {point.ranks} ranks",
        words(Span.of(point.rates), "images/s"),
        f"median and range of {len(point.rates)}",
        point.at or "no time is noted, 2026",
    )
