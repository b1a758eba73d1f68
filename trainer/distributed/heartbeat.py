"""What the ranks of a node tell each other about themselves, so that the late one can be named.

Each rank writes where it is into a small file every other second, and when its phase changes. The
files are in the node's
folder for temporary files and not in the run folder: that may be on a mount, and a mount that hangs
is one of the reasons to ask who is late. So nothing is known of the ranks of other nodes.
"""

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

HEARTBEAT_SECONDS = 2.0
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""A rank that has written nothing for so long is frozen, or has none of the processor's time."""


@dataclass(frozen=True)
class Pulse:
    """Where a rank is."""

    phase: str
    step: int
    """Steps done."""
    arrived: bool
    """Whether it has computed its part of the next step, and waits for the other ranks'."""


class Heartbeats:
    """The files of a run's ranks on this node."""

    def __init__(self, run: Path, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._since = time.time()
        name = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:16]
        self.folder = Path(tempfile.gettempdir()) / f"trainer-{os.getuid()}-{name}"
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, exist_ok=True)

    def write(self, pulse: Pulse) -> None:
        """Tell where this rank is; it trains on if it cannot be told."""
        scratch = self.folder / f".rank-{self._rank}-{threading.get_ident()}"
        with suppress(OSError):
            # The name can be foreseen, so the folder may be a trap of another user's.
            if self.folder.stat().st_uid != os.getuid():
                return
            scratch.write_text(json.dumps(asdict(pulse)))
            scratch.replace(self._file(self._rank))

    def read(self) -> dict[int, tuple[Pulse, float]]:
        """The last of each rank of this node, and its age in seconds."""
        found = {}
        for rank in range(self._size):
            try:
                written = self._file(rank).stat().st_mtime
                pulse = Pulse(**json.loads(self._file(rank).read_text()))
            except (OSError, ValueError, TypeError):
                continue
            # What an attempt that was killed has left says nothing.
            if written >= self._since - SILENT_SECONDS:
                found[rank] = (pulse, time.time() - written)
        return found

    def close(self) -> None:
        """Remove this rank's file, and with the last one the folder."""
        with suppress(OSError):
            self._file(self._rank).unlink(missing_ok=True)
            self.folder.rmdir()

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}"


def late_ranks(pulses: dict[int, tuple[Pulse, float]], size: int) -> str:
    """Name the ranks that the others wait for, as far as their last signs of life tell.

    Args:
        pulses: of the ranks that are known, with their ages in seconds.
        size: ranks of the world.
    """
    late = [
        f"rank {rank}: {fault}"
        for rank, (pulse, age) in sorted(pulses.items())
        if (fault := _fault(pulse, age, [other for other, _ in pulses.values()]))
    ]
    unknown = size - len(pulses)
    if late:
        return "; ".join(late)
    if unknown:
        return f"one of the {unknown} ranks of which nothing is known here"
    return "unknown, as all ranks are equally far"


def _fault(pulse: Pulse, age: float, everyone: Sequence[Pulse]) -> str | None:
    """What makes a rank late, beside the others."""
    furthest = max(other.step for other in everyone)
    if age > SILENT_SECONDS:
        return f"no sign of life for {age:.0f} s (frozen, or its processor is taken)"
    if pulse.step < furthest:
        return f"is at step {pulse.step}, others at {furthest}"
    if pulse.phase != "train" and any(other.phase == "train" for other in everyone):
        return f"is in the phase {pulse.phase!r}, while others train"
    if not pulse.arrived and any(other.arrived for other in everyone):
        return f"has not computed its part of step {pulse.step + 1} (no data, or no end of it)"
    return None
