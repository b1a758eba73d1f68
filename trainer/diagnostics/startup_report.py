"""Report of the machines that a run starts on, with a prominent warning if the run should use
InfiniBand and cannot.

Every node inspects itself, within milliseconds and without starting a program. Rank 0 prints a few
lines, and the same facts are recorded with the run's metrics.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.text import plural, size
from trainer.config import ComputeConfig
from trainer.diagnostics import infiniband, machine
from trainer.diagnostics.device import cuda_build, device_name, device_places
from trainer.diagnostics.environment import cores, environment
from trainer.diagnostics.nccl import Transport
from trainer.distributed.communicator import Backend, Communicator

GB = 10**9
_RULE = "=" * 90
_TO_DO = (
    "The run continues, but slower: by 1.8 to 2.4 times in Azure's measurements of other models",
    "(Azure/azureml-examples, best-practices/largescale-deep-learning). To fix it, check:",
    "  - cluster: a size with InfiniBand (the r of Standard_ND40rs_v2), all nodes of one cluster",
    "  - image: libibverbs1 and ibverbs-providers; a container that you start yourself needs",
    "    --device /dev/infiniband --ulimit memlock=-1",
    "  - environment: neither NCCL_IB_DISABLE=1 nor NCCL_NET=Socket; NCCL_IB_HCA, if it is set,",
    "    names an adapter of InfiniBand",
    "To measure it before the next run: python -m jobs submit --kind check",
    "To train without InfiniBand: --exchange.infiniband False",
)


def look(
    gpu: str,
    local_rank: int,
    run: Path,
    env: Mapping[str, str],
    root: Path = Path("/"),
    places: Sequence[str] = (),
) -> dict[str, Any]:
    """Inspect the node of this rank and return plain data; sizes are in bytes.

    Args:
        gpu: Name of this rank's GPUs; empty without one.
        local_rank: Number of this rank on its node.
        run: Folder of the run, which need not exist yet.
        env: Environment variables that NCCL reads.
        root: Root of the file system with /proc, /sys and /dev.
        places: Names of this rank's GPUs that tell them apart on its node.
    """
    total, free = machine.memory(root)
    fabric = infiniband.look(env, root)
    return {
        "gpu": gpu,
        "places": list(places),
        "local_rank": local_rank,
        "driver": machine.driver(root),
        "cores": cores(),
        "memory": total,
        "free_memory": free,
        "shared_memory": machine.shared_memory(root),
        "locked_memory": machine.locked_memory(),
        "free_disk": machine.free_disk(run),
        "free_scratch": machine.free_scratch(),
        "adapters": bool(fabric.ports),
        "infiniband": str(fabric),
        "infiniband_fault": fabric.fault,
    }


@dataclass(frozen=True)
class StartupReport:
    """Facts about the nodes of all ranks; the same on every rank."""

    ranks: Sequence[Mapping[str, Any]]
    """Result of `look` for each rank."""
    backend: Backend | None = None
    """Communication backend; None for a single rank."""
    built_with: Mapping[str, str] | None = None
    """Versions of CUDA and cuDNN that TensorFlow was built with; None if built for CPUs."""

    @classmethod
    def gather(cls, world: Communicator, run: Path) -> "StartupReport":
        """Let every rank inspect its node, and gather the results on all ranks.

        Args:
            world: World of ranks.
            run: Folder of the run, which need not exist yet.
        """
        mine = look(device_name(), world.local_rank, run, os.environ, places=device_places())
        ranks = world.gather(mine)
        return cls(ranks, world.backend, cuda_build())

    @property
    def gpus(self) -> list[str]:
        """Name of each GPU, in the order of ranks; one that ranks share counts once."""
        names: dict[tuple[int, str], str] = {}
        node = 0
        for rank in self.ranks:
            # Launchers fill one node after the other.
            node += rank["local_rank"] == 0
            if rank["gpu"]:
                names |= {(node, place): rank["gpu"] for place in rank["places"]}
        return list(names.values())

    @property
    def nodes(self) -> list[Mapping[str, Any]]:
        """Result of `look` for the first rank of each node, in the order of nodes."""
        return [rank for rank in self.ranks if rank["local_rank"] == 0]

    def lines(self, *, detail: bool = True) -> list[str]:
        """Return the lines to print at the start of a run; without details, the GPUs alone."""
        if not detail:
            return self._devices()
        return [*self._devices(), self._machine(), self._disk(), *self._exchange(), *self._fabric()]

    def notes(self, compute: ComputeConfig, before: Mapping[str, Any] | None) -> list[str]:
        """Return lines to print if the run may end with other last bits than another one, or is
        slower than it need be.

        Args:
            compute: How a step is computed.
            before: Environment of the run's previous attempt, as `record` returned it; None if it
                has none.
        """
        speed = []
        if self.gpus and compute.precision == "mixed_float16" and not compute.xla:
            # docs/reference/benchmarks.md, "On a GPU".
            speed = ["speed: without --compute.xla True, an H200 trained at 0.39 of its speed"]
        return [*speed, *self._bits(before, deterministic=compute.deterministic)]

    def _bits(self, before: Mapping[str, Any] | None, *, deterministic: bool) -> list[str]:
        if self.gpus and not deterministic:
            return [
                "bits: on a GPU, the same run may end with other last bits each time; see"
                " --compute.deterministic"
            ]
        now, last = (_processors(facts) for facts in (environment(self.gpus), before or {}))
        if last and last != now:
            return [
                f"bits: this attempt computes on {now}, the previous one on {last}, so the run may"
                " end with other last bits than without the interruption"
            ]
        return []

    def record(self, transport: Transport | None = None) -> dict[str, Any]:
        """Return the environment to record for an attempt; nothing that identifies its owner."""
        node = self.nodes[0]
        facts: dict[str, Any] = {
            "nodes": len(self.nodes),
            "memory_gb": round(node["memory"] / GB, 1),
            "free_disk_gb": node["free_disk"] and round(node["free_disk"] / GB, 1),
            "driver": ", ".join(self._drivers()) or None,
            **{
                f"tensorflow_{name.lower()}": text for name, text in (self.built_with or {}).items()
            },
            "infiniband": self._fabric() or None,
            "nccl_transport": transport and transport.words(len(self.nodes)),
            "nccl_infiniband": transport and transport.infiniband if self._several else None,
        }
        if self.backend:
            facts |= {
                "horovod_built_with": list(self.backend.built),
                "controller": self.backend.controller,
                "operations": self.backend.operations,
            }
        known = {name: fact for name, fact in facts.items() if fact is not None}
        return {**environment(self.gpus), **known}

    def warning(self) -> str:
        """Return the warning before the first step of a run that should use InfiniBand, or ''."""
        faults = [node["infiniband_fault"] for node in self.nodes]
        if len(faults) == 1:
            if not faults[0]:
                return ""
            return (
                f"note: --exchange.infiniband: this node cannot use InfiniBand ({faults[0]}); a run"
                " on one node does not need it, but a run on several nodes would"
            )
        lines = [f"  {nodes}: {fault}" for fault, nodes in _by_node(faults) if fault]
        if self.backend and self.backend.operations == "Gloo":
            lines.append("  all nodes: gradients are summed by Gloo, which uses TCP only")
        return _boxed(lines) if lines else ""

    def warning_after(self, transport: Transport | None) -> str:
        """Return the warning after the first step, when NCCL has chosen its network, or ''."""
        if transport is None or len(self.nodes) == 1 or transport.infiniband is not False:
            return ""
        line = f"  rank 0's {transport.words(len(self.nodes))}"
        return _boxed(
            [line], ("See the warning above for what to check.",) if self.warning() else _TO_DO
        )

    def _devices(self) -> list[str]:
        counts = Counter(self.gpus)
        if not counts:
            return []
        listed = ", ".join(f"{number} x {name}" for name, number in counts.items())
        without = sum(not rank["gpu"] for rank in self.ranks)
        parts = [listed + (f", and {plural(without, 'rank')} without" if without else "")]
        parts.append(f"driver {' and '.join(self._drivers()) or 'unknown'}")
        if self.built_with:
            versions = " and ".join(f"{name} {value}" for name, value in self.built_with.items())
            parts.append(f"TensorFlow built with {versions}")
        return ["GPUs: " + "; ".join(parts)]

    def _machine(self) -> str:
        node = self.nodes[0]
        where = f"{plural(len(self.nodes), 'node')}, the first with " if self._several else ""
        free, total = node["free_memory"] / GB, node["memory"] / GB
        text = f"machine: {where}{plural(node['cores'], 'core')}, {free:.1f} of {total:.1f} GB"
        text += " memory free"
        if node["shared_memory"] is not None:
            text += f", {size(node['shared_memory'])} in /dev/shm"
        if node["adapters"]:
            locked = node["locked_memory"]
            text += ", locked memory " + (
                "unlimited"
                if locked is None
                else f"at most {size(locked)} (ulimit -l; RDMA needs it unlimited)"
            )
        return text

    def _disk(self) -> str:
        sizes = (self.nodes[0][key] for key in ("free_disk", "free_scratch"))
        run, scratch = ("unknown" if free is None else size(free) for free in sizes)
        return f"free disk: {run} for the run, {scratch} for temporary files"

    def _exchange(self) -> list[str]:
        if self.backend is None:
            return []
        return [
            f"exchange: Horovod with {', '.join(self.backend.built)}; coordinated by"
            f" {self.backend.controller}, gradients are summed by {self.backend.operations}"
        ]

    def _fabric(self) -> list[str]:
        """Describe InfiniBand, or return nothing on a single node without any adapter."""
        if not any(node["adapters"] for node in self.nodes) and not (self._several and self.gpus):
            return []
        fabrics = _by_node([node["infiniband"] for node in self.nodes])
        if not self._several:
            return [f"InfiniBand: {fabrics[0][0]}"]
        return ["InfiniBand: " + "; ".join(f"{nodes}: {text}" for text, nodes in fabrics)]

    @property
    def _several(self) -> bool:
        return len(self.nodes) > 1

    def _drivers(self) -> list[str]:
        return list(dict.fromkeys(node["driver"] for node in self.nodes if node["driver"]))


def _processors(facts: Mapping[str, Any]) -> str:
    """Return the models that an environment computes on: its GPUs, or else its CPU."""
    return " and ".join(dict.fromkeys(facts.get("gpus", ()))) or str(facts.get("processor", ""))


def _by_node(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Pair each distinct text with a description of the nodes that it applies to."""
    nodes: dict[str, list[int]] = {}
    for node, text in enumerate(texts):
        nodes.setdefault(text, []).append(node)
    if len(nodes) == 1:
        return [(text, "all nodes") for text in nodes]
    return [
        (text, ("node " if len(which) == 1 else "nodes ") + ", ".join(map(str, which)))
        for text, which in nodes.items()
    ]


def _boxed(lines: Sequence[str], to_do: Sequence[str] = _TO_DO) -> str:
    head = "WARNING: this run should use InfiniBand (--exchange.infiniband), but"
    return "\n".join([_RULE, head, *lines, *to_do, _RULE])
