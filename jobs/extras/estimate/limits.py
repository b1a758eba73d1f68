"""Images/s within the limits of the input, which only ever lower throughput. Pure."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from infra.catalog.vm_sizes import Size
from jobs.extras.estimate.grounds import Ground, Rate
from jobs.extras.estimate.workload import Workload
from jobs.throughput import Span

NETWORK_BINDS: Final = 0.9
"""Share of single-node throughput below which the network counts as what binds."""
_SOURCES: Final = {
    "account": "egress limit of a general-purpose v2 account (Azure documentation, May 2020); for"
    " premium block blobs none is published",
    "NIC": "Azure's page of the series, read in November 2026 (infra/catalog/vm_sizes.py)",
}


@cache
def decoding() -> dict[str, float | str]:
    """Return the coefficients of the CPU time of an image, which `python -m tools.benchmarks
    decoding --json tools/benchmarks/results/decoding.json --to jobs/extras/estimate/decoding.json`
    wrote.
    """
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
    # Two vCPUs are one core with hyper-threads, or two: the ends of what is known.
    whole = found.images_per_s
    cached = Span(min(whole.low, cpu), min(whole.middle, cpu), min(whole.high, 2 * cpu))
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
            f"{told['source']}, {told['date']}; half, as a vCPU may be a hyper-thread; all at the"
            " high end",
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
