"""The InfiniBand adapters of a node, as Linux lists them. Standard library only.

Azure's accelerated networking lists Ethernet adapters of the same vendor in the same folder: only
the link layer distinguishes them. A container sees the adapters of its node whether or not it was
given the devices through which a process accesses them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = "sys/class/infiniband"
DEVICES = "dev/infiniband"


@dataclass(frozen=True)
class Port:
    """One port of an adapter; values that Linux does not report are empty."""

    adapter: str
    layer: str
    """Link layer: InfiniBand or Ethernet."""
    state: str
    """State: ACTIVE, INIT, DOWN, ..."""
    rate: str
    """Rate, such as "100 Gb/sec"."""


@dataclass(frozen=True)
class InfiniBand:
    """State of InfiniBand on a node."""

    ports: tuple[Port, ...]
    reachable: bool
    """Whether a process on this node has a device through which to access an adapter."""
    turned_off: str
    """Environment variable that keeps NCCL from using it, with its value; empty without one."""

    @property
    def adapters(self) -> list[str]:
        """Names of the InfiniBand adapters, whatever their state."""
        return list(dict.fromkeys(p.adapter for p in self.ports if p.layer == "InfiniBand"))

    @property
    def fault(self) -> str:
        """Why InfiniBand cannot be used from this node; empty if no reason is known."""
        ours = [port for port in self.ports if port.layer == "InfiniBand"]
        if not self.ports:
            return "no adapter"
        if not ours:
            return f"no adapter but {_named(self.ports)}, which is not InfiniBand"
        if all(port.state != "ACTIVE" for port in ours):
            return f"no active port: {_named(ours)}"
        if not self.reachable:
            return (
                f"{_named(ours)} is there, but nothing in /{DEVICES}, through which a process"
                " reaches it"
            )
        return f"{self.turned_off} keeps NCCL from it" if self.turned_off else ""

    def __str__(self) -> str:
        """Return a description for people."""
        return self.fault or _named(self.ports)


def look(env: Mapping[str, str], root: Path = Path("/")) -> InfiniBand:
    """Read the state of InfiniBand on this node.

    Args:
        env: Environment variables that NCCL reads.
        root: Root of the file system.
    """
    ports = tuple(_port(path) for path in sorted((root / ADAPTERS).glob("*/ports/*")))
    reachable = any((root / DEVICES).glob("uverbs*"))
    return InfiniBand(ports, reachable, _turned_off(env))


def _turned_off(env: Mapping[str, str]) -> str:
    if env.get("NCCL_IB_DISABLE", "").strip() not in ("", "0"):
        return f"NCCL_IB_DISABLE={env['NCCL_IB_DISABLE']}"
    if env.get("NCCL_NET", "").strip().lower() == "socket":
        return f"NCCL_NET={env['NCCL_NET']}"
    return ""


def _port(path: Path) -> Port:
    def word(name: str) -> str:
        try:
            return (path / name).read_text().strip()
        except OSError:
            # A virtual function may refuse to report its rate.
            return ""

    # "4: ACTIVE" and "100 Gb/sec (4X EDR)".
    state = word("state").rpartition(":")[2].strip()
    rate = word("rate").partition("(")[0].strip()
    return Port(path.parents[1].name, word("link_layer"), state, rate)


def _named(ports: Iterable[Port]) -> str:
    return ", ".join(
        f"{port.adapter} ({', '.join(filter(None, (port.layer, port.rate, _unless_active(port))))})"
        for port in ports
    )


def _unless_active(port: Port) -> str:
    return "" if port.state == "ACTIVE" else port.state
