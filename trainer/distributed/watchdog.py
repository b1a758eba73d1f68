"""Ends a rank that makes no progress, and says where it was: a run that fails can be restarted,
one that hangs costs as much as one that trains, for ever.

Ranks wait for ever under MPI and NCCL if a peer is frozen, cut off or lost, and anywhere if a mount
hangs. Under Gloo the other ranks get an error after `exchange.timeout_seconds`, which ends them;
the watchdog waits longer than that, for whatever still hangs.

There are two clocks, because neither is sufficient alone:

- A thread ticks once a second, and adds up the time since the last step or change of phase. It
  needs nothing but the GIL, which a collective or a read does not hold, so it runs while the main
  thread is stuck, can print an explanation, and exits by `os._exit`, because an orderly exit would
  wait for that thread. A tick counts as two seconds at most, so the time for which the process was
  stopped or its machine asleep does not count.
- If something holds the GIL for ever there are no ticks. A timer of faulthandler, in C and without
  the GIL, is reset at each tick; when it expires it prints all stacks and ends the process with
  status 1. It cannot distinguish this from a process that was stopped (SIGSTOP), so one that was
  stopped for longer than the longest limit, half an hour by default, is ended when it continues.

To name the late rank, the ranks of a node share their state: each writes it into a small file every
other second, and when its phase changes. The files are in the node's folder for temporary files
and not in the run folder, because the run folder may be on a mount, and a mount that hangs is one
of the possible causes. So nothing is known about ranks on other nodes.
"""

import faulthandler
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from trainer.config import WatchdogConfig
from trainer.distributed.rank import Rank
from trainer.errors import WATCHDOG_EXIT_CODE

TICK_SECONDS = 1.0
EXTRA_SECONDS = 3.0
"""Seconds added to the limit of a rank that waits for others, so that the late rank ends first."""
EXPLAIN_SECONDS = 10.0
"""Seconds for printing the explanation; a blocked terminal or pipe must not keep the process."""
OTHER = "other work"
"""Name of the phase outside of all others: start-up, reports, export."""
HEARTBEAT_SECONDS = 2.0
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""Seconds without a heartbeat after which a rank counts as frozen, or without CPU time."""


@dataclass(frozen=True)
class Heartbeat:
    """State of a rank."""

    phase: str
    step: int
    """Steps done."""
    arrived: bool
    """Whether the rank has computed its part of the next step and waits for the other ranks."""


class HeartbeatFiles:
    """The files in which the ranks of a run on this node share their state."""

    def __init__(self, run: Path, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._since = time.monotonic()
        name = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:16]
        self.folder = Path(tempfile.gettempdir()) / f"trainer-{os.getuid()}-{name}"
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, exist_ok=True)

    def write(self, heartbeat: Heartbeat) -> None:
        """Write the state of this rank; it continues to train if that fails."""
        # Two threads write, and neither may wait for the other, least of all the watchdog's.
        scratch = self.folder / f".rank-{self._rank}-{threading.get_ident()}"
        with suppress(OSError):
            # The name is predictable, so the folder may be a trap set by another user.
            if self.folder.stat().st_uid != os.getuid():
                return
            # All processes of a node share the monotonic clock, which is never set.
            scratch.write_text(json.dumps({**asdict(heartbeat), "at": time.monotonic()}))
            scratch.replace(self._file(self._rank))

    def read(self) -> dict[int, tuple[Heartbeat, float]]:
        """Return the last heartbeat of each rank of this node, with its age in seconds."""
        latest = {}
        for rank in range(self._size):
            try:
                facts = json.loads(self._file(rank).read_text())
                written = facts.pop("at")
                heartbeat = Heartbeat(**facts)
            except (OSError, ValueError, TypeError, KeyError):
                continue
            now = time.monotonic()
            # Files that a killed attempt has left, perhaps before a reboot, are ignored.
            if self._since - SILENT_SECONDS <= written <= now:
                latest[rank] = (heartbeat, now - written)
        return latest

    def close(self) -> None:
        """Remove this rank's file, and after the last one the folder."""
        with suppress(OSError):
            self._file(self._rank).unlink(missing_ok=True)
            self.folder.rmdir()

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}"


def late_ranks(heartbeats: dict[int, tuple[Heartbeat, float]], size: int) -> str:
    """Name the ranks that the others wait for, as far as their last heartbeats show.

    Args:
        heartbeats: Last heartbeats of the known ranks, with their ages in seconds.
        size: World size.
    """
    late = [
        f"rank {rank}: {fault}"
        for rank, (heartbeat, age) in sorted(heartbeats.items())
        if (fault := _fault(heartbeat, age, [other for other, _ in heartbeats.values()]))
    ]
    unknown = size - len(heartbeats)
    if late:
        return "; ".join(late)
    if unknown:
        return f"one of the {unknown} ranks whose state is not known here"
    return "unknown, because all ranks are at the same point"


def _fault(heartbeat: Heartbeat, age: float, everyone: Sequence[Heartbeat]) -> str | None:
    """Return why a rank is late compared with the others, or None."""
    furthest = max(other.step for other in everyone)
    if age > SILENT_SECONDS:
        return f"no sign of life for {age:.0f} s (frozen, or it gets no CPU time)"
    if heartbeat.step < furthest:
        return f"is at step {heartbeat.step}, others at {furthest}"
    if heartbeat.phase != "train" and any(other.phase == "train" for other in everyone):
        return f"is in the phase {heartbeat.phase!r}, while others train"
    if not heartbeat.arrived and any(other.arrived for other in everyone):
        return f"has not computed its part of step {heartbeat.step + 1} (no data, or it hangs)"
    return None


class Watchdog:
    """Watches one rank while the context is entered; does nothing if `step_seconds` is 0."""

    def __init__(self, config: WatchdogConfig, launched: Rank | None) -> None:
        self._config = config
        self._rank, self._size = (launched.rank, launched.size) if launched else (0, 1)
        self._heartbeat = Heartbeat(OTHER, 0, arrived=False)
        self._signs, self._since = 0, time.monotonic()
        self._files: HeartbeatFiles | None = None
        self._ended = threading.Event()
        self.last_words: Callable[[], None] | None = None
        """Function that prints further information before this rank is ended, or None."""
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    @property
    def step(self) -> int:
        """Steps done, as last reported by `beat`."""
        return self._heartbeat.step

    @property
    def heartbeat(self) -> Heartbeat:
        """State of this rank, as last reported."""
        return self._heartbeat

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last step, change of phase or other progress."""
        return time.monotonic() - self._since

    def node(self) -> dict[int, tuple[Heartbeat, float]]:
        """Return the last heartbeats of the ranks of this node; see `HeartbeatFiles.read`."""
        return self._files.read() if self._files is not None else {}

    def __enter__(self) -> Self:
        if self._config.step_seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._config.step_seconds:
            return
        self._ended.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        if self._files is not None:
            self._files.close()

    def share(self, run: Path) -> None:
        """Start to share this rank's state with the other ranks of the run on this node."""
        if self._config.step_seconds and self._size > 1:
            self._files = HeartbeatFiles(run, self._rank, self._size)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name the phase of a block. Only "train" has the limit of a step."""
        before = self._heartbeat.phase
        self._tell(name, self._heartbeat.step, arrived=False)
        try:
            yield
        finally:
            self._tell(before, self._heartbeat.step, arrived=False)

    def beat(self, step: int, *, arrived: bool) -> None:
        """Report the steps done, any number of times; only a new number counts as progress.

        Args:
            step: Steps done.
            arrived: Whether this rank waits for the other ranks' parts of the next step.
        """
        if step != self._heartbeat.step:
            self.alive()
        self._heartbeat = Heartbeat(self._heartbeat.phase, step, arrived)

    def alive(self) -> None:
        """Report progress other than a step, such as a batch of an evaluation."""
        self._signs, self._since = self._signs + 1, time.monotonic()

    def _tell(self, phase: str, step: int, *, arrived: bool) -> None:
        self.alive()
        self._heartbeat = Heartbeat(phase, step, arrived)
        if self._files is not None:
            self._files.write(self._heartbeat)

    def _watch(self) -> None:
        seen, idle, unsaid = self._signs, 0.0, HEARTBEAT_SECONDS
        limits = self._config.step_seconds, self._config.startup_seconds
        # A tick that is a little late must not end a healthy rank.
        longest = max(*limits, 3 * TICK_SECONDS)
        now = time.monotonic()
        while True:
            faulthandler.dump_traceback_later(longest, exit=True)
            if self._ended.wait(TICK_SECONDS):
                return
            before, now = now, time.monotonic()
            tick = min(now - before, 2 * TICK_SECONDS)
            idle, unsaid = idle + tick, unsaid + tick
            if seen != self._signs:
                seen, idle = self._signs, 0.0
            if self._files is not None and unsaid >= HEARTBEAT_SECONDS:
                self._files.write(self._heartbeat)
                unsaid = 0.0
            if idle > self._limit():
                self._leave(idle)

    def _limit(self) -> float:
        if self._heartbeat.phase != "train":
            return self._config.startup_seconds
        return self._config.step_seconds + EXTRA_SECONDS * self._heartbeat.arrived

    def _leave(self, idle: float) -> None:
        teller = threading.Thread(target=self._explain, args=(idle,), daemon=True)
        teller.start()
        teller.join(EXPLAIN_SECONDS)
        os._exit(WATCHDOG_EXIT_CODE)

    def _explain(self, idle: float) -> None:
        heartbeat = self._heartbeat
        option = "step" if heartbeat.phase == "train" else "startup"
        late = "this rank, or one that it waits for"
        if self._files is not None and heartbeat.phase == "train":
            late = late_ranks(self._files.read(), self._size)
        print(
            f"rank {self._rank}: no progress for {idle:.0f} s after step {heartbeat.step}, in the"
            f" phase {heartbeat.phase!r} (--watchdog.{option}-seconds); its watchdog ends it\n"
            f"rank {self._rank}: the late rank is {late}",
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(all_threads=True)
        if self.last_words is not None:
            self.last_words()
