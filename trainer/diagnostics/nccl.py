"""The network that NCCL uses according to its log, and NCCL's warnings. Standard library only.

NCCL reports its network only in its log, among some hundred lines per rank. So rank 0's NCCL logs
to a file, from which three facts are read once: the network between nodes, whether it is
InfiniBand, and GPUDirect. All lines of the file that are not informational, such as warnings, are
copied to stderr as they appear, as if there were no file.

Checked against published logs of NCCL 2.18 to 2.28 and the sources of these versions, and against a
file that NCCL 2.21.5 wrote on a machine without a GPU; not against a log of a run on GPUs.
"""

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
_VERSION = re.compile(r"NCCL version ([\d.]*\d)")
_NETWORK = re.compile(r"NCCL INFO Using network (\S+)")
_ADAPTERS = re.compile(r"NCCL INFO NET/IB\w* : Using(.*)")
_ADAPTER = re.compile(r"\w+:\d+/(?:IB|RoCE)\b")
_BETWEEN_NODES = re.compile(r" via (NET/\S+)")
_INFO = "NCCL INFO "


@dataclass(frozen=True)
class Transport:
    """How NCCL transports data between nodes; values that its log does not show are empty."""

    version: str = ""
    network: str = ""
    """NCCL's name of the network: IB, Socket, or the name of a plug-in."""
    adapters: tuple[str, ...] = ()
    """Adapters of IB with port and kind: mlx5_0:1/IB, or mlx5_0:1/RoCE on Ethernet."""
    gpudirect: bool | None = None
    """Whether the adapter reads the GPU's memory directly on this rank's connection to another
    node; None if the log shows no such connection."""

    @property
    def infiniband(self) -> bool | None:
        """Whether the network between nodes is InfiniBand; None if that is unknown."""
        if self.network.startswith("IB") and self.adapters:
            return any(adapter.endswith("/IB") for adapter in self.adapters)
        return False if self.network == "Socket" else None

    def words(self, nodes: int) -> str:
        """Return the description of the transport in one line.

        Args:
            nodes: Number of nodes of the world.
        """
        head = f"NCCL {self.version}".strip()
        if nodes == 1:
            return f"{head}: all ranks are on one node"
        if not self.network:
            return f"{head}: its log does not show the network between nodes"
        other = "Ethernet" if self.adapters else self.network
        name = {True: "InfiniBand", False: f"no InfiniBand but {other}", None: self.network}
        adapters = f" ({', '.join(self.adapters)})" if self.adapters else ""
        direct = {True: ", with GPUDirect", False: ", without GPUDirect", None: ""}
        return f"{head}: between nodes {name[self.infiniband]}{adapters}{direct[self.gpudirect]}"


def read_log(text: str) -> Transport:
    """Parse a log of any version; unknown lines are ignored."""
    version = _VERSION.search(text)
    network = _NETWORK.search(text)
    adapters = _ADAPTER.findall(" ".join(_ADAPTERS.findall(text)))
    connections = _BETWEEN_NODES.findall(text)
    return Transport(
        version=version[1] if version else "",
        network=network[1] if network else "",
        adapters=tuple(dict.fromkeys(adapters)) if network and network[1].startswith("IB") else (),
        gpudirect=any("/GDRDMA" in name for name in connections) if connections else None,
    )


class NcclLog:
    """The file that this process's NCCL logs to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen, self._rest = 0, b""
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
        """Copy to stderr the warnings and errors that were logged since the last call."""
        with self._lock, suppress(OSError):
            with self._path.open("rb") as file:
                file.seek(self._seen)
                new = file.read()
            self._seen += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in (line.decode(errors="replace") for line in lines):
                if line.strip() and _INFO not in line:
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
