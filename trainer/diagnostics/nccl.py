"""NCCL's version, and the network that it uses according to its log. Standard library only.

NCCL reports its network only in its log, among some hundred lines per rank. So rank 0's NCCL logs
to a file, from which the few facts are read once, and from which its warnings are copied to stderr
as they appear, as if there were no file.

Checked against published logs of NCCL 2.4 to 2.28 and the sources of these versions, and against a
file that NCCL 2.21.5 wrote on a machine without a GPU; not against a log of a run on GPUs.
"""

import ctypes
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trainer.distributed.rank import Rank

RELAY_SECONDS = 2.0
"""Seconds between two checks for new warnings."""
END_LINES = 30
"""Lines at the end of the log that a failed run prints."""
_LIBRARY = re.compile(r"/\S*/libnccl\.so[.\d]*$", re.MULTILINE)
_VERSION = re.compile(r"NCCL version (\d+(?:\.\d+)+)")
_NETWORK = re.compile(r"NCCL INFO Using network (.+)")
_FOUND = re.compile(r"NCCL INFO NET/(\w+) : Using ?(.*)")
_ADAPTER = re.compile(r"\w+:\d+/(?:IB|RoCE)\b")
_INTERFACE = re.compile(r"\[\d+\](\w[^:\s]*):")
_CHANNEL = re.compile(r"NCCL INFO (?:Channel|Ring) \d+(?:/\d+)? : .* via (\S+)")
_CHANNELS = re.compile(r"NCCL INFO (\d+) coll channels")
_HEAD = re.compile(r"\bNCCL (?:INFO|WARN|TRACE|CALL|version) ")
_WARNING = re.compile(r"\bNCCL WARN ")


@dataclass(frozen=True)
class Transport:
    """How NCCL transports data according to its log; values that the log lacks are empty."""

    version: str = ""
    network: str = ""
    """NCCL's name of the network between nodes: IB, Socket, or the name of a plug-in."""
    ports: tuple[str, ...] = ()
    """Adapters with port and kind, such as mlx5_0:1/IB, or the interfaces of Socket."""
    over_ethernet: bool = False
    """Whether all adapters of IB are Ethernet adapters (RoCE)."""
    gpudirect: bool | None = None
    """Whether the adapter reads the GPU's memory directly on this rank's connection to another
    node; None if the log shows no such connection."""
    inside: tuple[str, ...] = ()
    """Transports to the other GPUs of this node."""
    channels: int | None = None

    @property
    def infiniband(self) -> bool | None:
        """Whether the network between nodes is InfiniBand; None if that is unknown."""
        if self.network.startswith("IB") and self.ports:
            return not self.over_ethernet
        return False if self.network == "Socket" else None

    def words(self, nodes: int) -> str:
        """Return the description of the transport in one line.

        Args:
            nodes: Number of nodes of the world.
        """
        head = f"NCCL {self.version}".strip()
        parts = []
        if nodes > 1:
            parts.append(self._between())
        if self.inside:
            parts.append(f"inside a node {', '.join(self.inside)}")
        elif nodes == 1:
            parts.append("its log does not show the transport inside the node")
        if self.channels:
            parts.append(f"{self.channels} channels")
        return f"{head}: {'; '.join(parts)}"

    def _between(self) -> str:
        if not self.network:
            return "its log does not show the network between nodes"
        name = {True: "InfiniBand", False: "no InfiniBand but ", None: ""}[self.infiniband]
        if self.infiniband is not True:
            name += f"{self.network} over Ethernet" if self.over_ethernet else self.network
        ports = f" ({', '.join(self.ports)})" if self.ports else ""
        direct = {
            True: ", adapters read the GPUs' memory (GPUDirect RDMA)",
            False: ", through the host's memory (no GPUDirect RDMA)" if self.infiniband else "",
            None: "",
        }
        return f"between nodes {name}{ports}{direct[self.gpudirect]}"


def read_log(text: str) -> Transport:
    """Parse a log of any version; unknown lines are ignored."""
    version = _VERSION.search(text)
    networks: dict[str, str] = dict(_FOUND.findall(text))
    chosen = [name.strip() for name in _NETWORK.findall(text)]
    # NCCL up to 2.6 does not log its choice, but uses InfiniBand if it finds any.
    network = chosen[-1] if chosen else next((n for n in ("IB", "Socket") if n in networks), "")
    verbs = networks.get(network, networks.get("IB", "")) if network.startswith("IB") else ""
    adapters = _ADAPTER.findall(verbs)
    interfaces = _INTERFACE.findall(networks.get("Socket", "")) if network == "Socket" else []
    ways = _CHANNEL.findall(text)
    between = [way for way in ways if way.startswith("NET/")]
    channels = _CHANNELS.findall(text)
    return Transport(
        version=version[1] if version else "",
        network=network,
        ports=tuple(dict.fromkeys([*adapters, *interfaces])),
        over_ethernet=bool(adapters) and all(adapter.endswith("/RoCE") for adapter in adapters),
        gpudirect=any("/GDRDMA" in way for way in between) if between else None,
        inside=tuple(dict.fromkeys(_kind(way) for way in ways if not way.startswith("NET/"))),
        channels=int(channels[-1]) if channels else None,
    )


def _kind(way: str) -> str:
    """Return P2P or SHM for NCCL's detailed name; older versions say "direct shared memory"."""
    return {"direct": "SHM"}.get(way, way.partition("/")[0])


def in_warning(line: str, *, before: bool) -> bool:
    """Return whether a line belongs to a warning; `before` is whether the previous line does."""
    if _HEAD.search(line):
        return bool(_WARNING.search(line))
    return before and bool(line.strip())


def loaded_version(maps: Path = Path("/proc/self/maps")) -> str | None:
    """Return the version of NCCL in this process, of each if there are several, None without."""
    try:
        libraries = sorted(set(_LIBRARY.findall(maps.read_text(errors="replace"))))
    except OSError:
        return None
    return ", ".join(dict.fromkeys(filter(None, map(_version, libraries)))) or None


def _version(library: str) -> str:
    number = ctypes.c_int()
    try:
        # The library is loaded already, so this returns a handle to the same one.
        if ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number)):
            return ""
    except (OSError, AttributeError):
        return ""
    return version_name(number.value)


def version_name(number: int) -> str:
    """Return NCCL's version number as text: 22105 is 2.21.5."""
    base = 10_000 if number >= 10_000 else 1_000
    return f"{number // base}.{number % base // 100}.{number % 100}"


class NcclLog:
    """The file that this process's NCCL logs to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen, self._rest, self._inside = 0, b"", False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nccl-log", daemon=True)

    @classmethod
    def begin(cls, env: MutableMapping[str, str]) -> "NcclLog | None":
        """Make NCCL, which must not have been initialised yet, log to a file. Return None if the
        user has set another log file or level, or if there is no place for a file.
        """
        own = {"NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"} & env.keys()
        if own or env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE"):
            return None
        try:
            handle, name = tempfile.mkstemp(prefix="trainer-nccl-", suffix=".log")
        except OSError:
            return None
        os.close(handle)
        # NCCL replaces %h and %p by the host name and the process id.
        env.update(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=name.replace("%", "%%"))
        env["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
        log = cls(Path(name))
        log._thread.start()
        return log

    def transport(self) -> Transport | None:
        """Return the transport logged so far; None if NCCL has written nothing."""
        try:
            text = self._path.read_text(errors="replace")
        except OSError:
            return None
        return read_log(text) if text else None

    def relay(self) -> None:
        """Copy the warnings that were logged since the last call to stderr."""
        with self._lock, suppress(OSError):
            with self._path.open("rb") as file:
                file.seek(self._seen)
                new = file.read()
            self._seen += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in (line.decode(errors="replace") for line in lines):
                self._inside = in_warning(line, before=self._inside)
                if self._inside:
                    print(line, file=sys.stderr, flush=True)

    def end(self, *, failed: bool = False) -> None:
        """Copy the remaining warnings; after a failure also print the end of the log."""
        self._ended.set()
        self._thread.join()
        if failed:
            self.last_words()
        else:
            self.relay()
        with suppress(OSError):
            self._path.unlink()

    def last_words(self) -> None:
        """Copy the remaining warnings, and print the end of the log, because the temporary files
        of a job are deleted with its container.
        """
        self.relay()
        with suppress(OSError):
            lines = self._path.read_text(errors="replace").splitlines()[-END_LINES:]
            if lines:
                head = f"the last {len(lines)} lines of NCCL's log of rank 0:"
                print("\n".join([head, *lines]), file=sys.stderr, flush=True)

    def _watch(self) -> None:
        while not self._ended.wait(RELAY_SECONDS):
            self.relay()


@contextmanager
def nccl_log(launched: Rank | None) -> Iterator[NcclLog | None]:
    """Provide the log of rank 0's NCCL, or None on other ranks and where NCCL is not used."""
    chief_of_many = launched is not None and launched.rank == 0 and launched.size > 1
    log = NcclLog.begin(os.environ) if chief_of_many and has_gpus() else None
    try:
        yield log
    except BaseException:
        if log is not None:
            log.end(failed=True)
        raise
    if log is not None:
        log.end()


def has_gpus() -> bool:
    """Return whether this machine has a GPU that NCCL may use, without loading any library."""
    return any(Path("/dev").glob("nvidia[0-9]*"))
