"""Assess the measurements of a cluster check. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.errors import UserError
from common.text import plural
from infra.outputs import Cluster

_MIB: Final = 1 << 20

FIGURES: Final[Mapping[str, Mapping[int, float]]] = {
    "Standard_ND40rs_v2": {
        32 * _MIB: 14.3e9,
        64 * _MIB: 15.1e9,
        128 * _MIB: 15.7e9,
        256 * _MIB: 16.0e9,
    }
}
"""Bus bandwidth in bytes per second by VM size and buffer size, of NCCL's sum over 2 nodes (Azure,
largescale-deep-learning, Environment/README.md)."""

TOPOLOGIES: Final[Mapping[str, str]] = {
    "Standard_ND40rs_v2": (
        "--variables NCCL_TOPO_FILE=/opt/trainer/Standard_ND40rs_v2.nccl.xml"
        " NCCL_IGNORE_CPU_AFFINITY=1"
    )
}
"""Options that tell NCCL the PCI topology of a VM size, as Azure's HPC images do for their hosts; a
container does not see those settings."""

VERDICTS: Final[Mapping[bool, str]] = {
    True: "the cluster is good",
    False: "the check found a problem",
}
"""Last line that a command prints of a check that it has read, by whether it passed."""

GOOD: Final = 0.8
"""Fraction of the published bandwidth from which a network passes the check."""


@dataclass(frozen=True)
class ClusterCheckResult:
    """Result of a cluster check: whether it passed, and its findings as lines."""

    good: bool
    lines: tuple[str, ...]


def assess(measured: Mapping[str, Any], cluster: Cluster) -> ClusterCheckResult:
    """Assess what `trainer.diagnostics.cluster_check` wrote.

    Raises:
        UserError: Another version of the check wrote the file.
    """
    try:
        nodes = int(measured["ranks"]) // int(measured["ranks_per_node"])
        findings = [_ranks(measured, cluster), *_network(measured, cluster, nodes)]
        lines = [*findings, *_reading(measured)]
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise UserError(
            f"the result of the check has an unexpected format ({error!r}); run the check again"
            " with this version"
        ) from error
    return ClusterCheckResult(all(good for good, _ in lines), tuple(text for _, text in lines))


def _ranks(measured: Mapping[str, Any], cluster: Cluster) -> tuple[bool, str]:
    per_node = int(measured["ranks_per_node"])
    needed = cluster.gpus_per_node or per_node
    text = f"{measured['ranks']} ranks, {per_node} per node"
    gpus = measured["environment"].get("gpus", [])
    if cluster.gpus_per_node and len(gpus) != measured["ranks"]:
        return (
            False,
            f"{text}, of which only {len(gpus)} see a GPU: check the image and its driver",
        )
    return per_node == needed, text if per_node == needed else f"{text} instead of {needed}"


def _network(measured: Mapping[str, Any], cluster: Cluster, nodes: int) -> list[tuple[bool, str]]:
    largest = max(measured["sums"], key=lambda result: result["bytes"])
    bandwidth = float(largest["bus_bytes_per_second"])
    text = f"{bandwidth / 1e9:.1f} GB/s of bus bandwidth for {largest['bytes'] // _MIB} MiB"
    if nodes == 1:
        return [(True, f"one node: {text}, within the node")]
    lines = []
    if cluster.infiniband:
        seen = bool(measured["infiniband"])
        lines.append(
            (
                seen,
                "InfiniBand works on all nodes"
                if seen
                else "InfiniBand does not work on all nodes, so gradients go over Ethernet: "
                + "; ".join(
                    f"node {number}: {node['infiniband_fault']}"
                    for number, node in enumerate(measured["nodes"])
                    if node["infiniband_fault"]
                ),
            )
        )
    published = FIGURES.get(cluster.size, {}).get(largest["bytes"])
    if published is None:
        return [*lines, (True, f"{nodes} nodes: {text}; no published figure to compare with")]
    part = bandwidth / published
    verdict = (
        f"{nodes} nodes: {text}, {part:.0%} of the {published / 1e9:.1f} GB/s that Azure published"
        f" for 2 nodes of {cluster.size}"
    )
    if part < GOOD and cluster.size in TOPOLOGIES:
        verdict += f"; check again with {TOPOLOGIES[cluster.size]}"
    return [*lines, (part >= GOOD, verdict)]


def _reading(measured: Mapping[str, Any]) -> list[tuple[bool, str]]:
    rates = [float(rate) for rate in measured["read_bytes_per_second"]]
    if not rates:
        return []
    return [
        (
            True,
            f"data: {min(rates) / 1e6:.0f} MB/s on the slowest of {plural(len(rates), 'node')},"
            f" {sum(rates) / 1e6:.0f} MB/s in total",
        )
    ]
