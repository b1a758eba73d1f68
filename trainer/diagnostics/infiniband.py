"""What a node shows of InfiniBand, as Linux lists it. Standard library only.

Azure's accelerated networking shows its Ethernet in the same folder, by adapters of the same maker:
only the link layer tells them apart. And a container sees the adapters of its node, whether or not
it was given the devices through which a process reaches them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = "sys/class/infiniband"
DEVICES = "dev/infiniband"


@dataclass(frozen=True)
class Port:
    """One port of an adapter; a word that Linux does not tell is empty."""

    adapter: str
    layer: str
    """InfiniBand or Ethernet."""
    state: str
    """ACTIVE, INIT, DOWN, ..."""
    rate: str
    """Such as "100 Gb/sec"."""


@dataclass(frozen=True)
class InfiniBand:
    """What a node shows of it."""

    ports: tuple[Port, ...]
    reachable: bool
    """Whether a process here has a device to reach an adapter through."""
    turned_off: str
    """The variable that keeps NCCL from it, with its value; empty without one."""

    @property
    def adapters(self) -> list[str]:
        """Names of the adapters that are InfiniBand's, whatever their state."""
        return list(dict.fromkeys(p.adapter for p in self.ports if p.layer == "InfiniBand"))

    @property
    def fault(self) -> str:
        """Why nothing can be sent over it from here; empty if nothing speaks against it."""
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
        """In words, for people."""
        return self.fault or _named(self.ports)


def look(env: Mapping[str, str], root: Path = Path("/")) -> InfiniBand:
    """What this node shows.

    Args:
        env: the environment that NCCL reads.
        root: of the file system.
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
            # A virtual function may refuse to tell its rate.
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
