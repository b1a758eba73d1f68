"""What limits the input of a training: CPUs, network cards, the storage account, the disk. Pure.

Limits only ever lower throughput.
"""

from dataclasses import dataclass
from typing import Final

from infra.catalog.vm_sizes import Size
from jobs.planning.throughput import Rate
from jobs.planning.values import Ground, Span
from jobs.planning.workload import Workload

DECODING_MS: Final = 1.11
"""CPU time of an image from shard to batch in milliseconds, on one core (docs/benchmarks.md)."""
NETWORK_BINDS: Final = 0.9
"""Share of single-node throughput below which the network counts as what binds."""
ACCOUNT_SOURCE: Final = (
    "egress limit of a general-purpose v2 account (Azure documentation, May 2020); for premium"
    " block blobs none is published"
)

NIC_SOURCE: Final = "Azure's page of the series, read in November 2026 (infra/catalog/vm_sizes.py)"


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
    """Apply the limits to the throughput of GPUs and network."""
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
    return Limited(
        steady, first, binds, tuple(notes), _grounds(size, nodes, cpu, reading, workload)
    )


def _grounds(
    size: Size, nodes: int, cpu: float, reading: dict[str, float], workload: Workload
) -> tuple[Ground, ...]:
    sources = {"account": ACCOUNT_SOURCE, "NIC": NIC_SOURCE}
    each = f"{workload.bytes_per_image / 1000:.0f} KB an image"
    return (
        Ground(
            "limit of the CPUs",
            f"{cpu:,.0f} images/s",
            f"half of {size.vcpus * nodes} vCPUs / {DECODING_MS} ms",
            "docs/benchmarks.md (November 2026); half, as a vCPU may be a hyper-thread",
        ),
        *(
            Ground(f"limit of the {name}", f"{rate:,.0f} images/s", each, sources[name])
            for name, rate in reading.items()
        ),
    )
