"""Ends a rank that makes no progress, and says where it was: a run that fails can be started again,
one that hangs costs as much as one that trains, for ever.

Who waits for ever: under MPI and NCCL every rank whose peer is frozen, cut off or lost; anywhere
one whose mount hangs. Under Gloo the others get an error after `exchange.timeout_seconds`, which
ends them by itself; the watchdog waits longer than that, and is for what hangs all the same.

Two clocks, as neither would do alone:

- A thread ticks once a second, and adds up the time since the last step or change of phase. It
  needs nothing but Python's lock, which a collective or a read does not hold, so it runs while the
  main thread is stuck, can explain, and leaves by `os._exit`: an orderly end would wait for that
  thread. A tick counts as two seconds at most, so the time for which the process was stopped or its
  machine asleep is not held against it.
- If something holds Python's lock for ever there are no ticks. A timer of faulthandler's, in C and
  without that lock, is wound up at each tick; when it runs down it prints all stacks and ends the
  process with status 1. It cannot tell this from a process that was stopped (SIGSTOP), so one that
  was stopped for longer than the longest limit, half an hour by default, is ended as it wakes.

So that the late one can be named, the ranks of a node tell each other about themselves: each writes
where it is into a small file every other second, and when its phase changes. The files are in the
node's folder for temporary files and not in the run folder: that may be on a mount, and a mount
that hangs is one of the reasons to ask who is late. So nothing is known of other nodes' ranks.
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
from types import TracebackType
from typing import Self

from trainer.config import WatchdogConfig
from trainer.distributed.rank import Rank
from trainer.errors import WATCHDOG_EXIT_CODE

TICK_SECONDS = 1.0
EXTRA_SECONDS = 3.0
"""Added to the limit of a rank that waits for others, so that the late one tells first."""
EXPLAIN_SECONDS = 10.0
"""Time for the explanation; a terminal or a pipe that takes no more must not keep the process."""
OTHER = "other work"
"""The phase outside of all others: start-up, reports, export."""
HEARTBEAT_SECONDS = 2.0
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""A rank that has written nothing for so long is frozen, or has no CPU time."""


@dataclass(frozen=True)
class Heartbeat:
    """Where a rank is."""

    phase: str
    step: int
    """Steps done."""
    arrived: bool
    """Whether it has computed its part of the next step, and waits for the other ranks'."""


class HeartbeatFiles:
    """The files in which the ranks of a run on this node tell each other where they are."""

    def __init__(self, run: Path, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._since = time.time()
        name = hashlib.sha256(str(run.absolute()).encode()).hexdigest()[:16]
        self.folder = Path(tempfile.gettempdir()) / f"trainer-{os.getuid()}-{name}"
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, exist_ok=True)

    def write(self, heartbeat: Heartbeat) -> None:
        """Tell where this rank is; it trains on if it cannot be told."""
        # Two threads write, and neither may wait for the other: the one that ends this rank least.
        scratch = self.folder / f".rank-{self._rank}-{threading.get_ident()}"
        with suppress(OSError):
            # The name can be foreseen, so the folder may be a trap of another user's.
            if self.folder.stat().st_uid != os.getuid():
                return
            scratch.write_text(json.dumps(asdict(heartbeat)))
            scratch.replace(self._file(self._rank))

    def read(self) -> dict[int, tuple[Heartbeat, float]]:
        """The last of each rank of this node, and its age in seconds."""
        latest = {}
        for rank in range(self._size):
            try:
                written = self._file(rank).stat().st_mtime
                heartbeat = Heartbeat(**json.loads(self._file(rank).read_text()))
            except (OSError, ValueError, TypeError):
                continue
            # What an attempt that was killed has left says nothing.
            if written >= self._since - SILENT_SECONDS:
                latest[rank] = (heartbeat, time.time() - written)
        return latest

    def close(self) -> None:
        """Remove this rank's file, and with the last one the folder."""
        with suppress(OSError):
            self._file(self._rank).unlink(missing_ok=True)
            self.folder.rmdir()

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}"


def late_ranks(heartbeats: dict[int, tuple[Heartbeat, float]], size: int) -> str:
    """Name the ranks that the others wait for, as far as their last signs of life tell.

    Args:
        heartbeats: of the ranks that are known, with their ages in seconds.
        size: ranks of the world.
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
        return f"one of the {unknown} ranks of which nothing is known here"
    return "unknown, as all ranks are equally far"


def _fault(heartbeat: Heartbeat, age: float, everyone: Sequence[Heartbeat]) -> str | None:
    """What makes a rank late, beside the others."""
    furthest = max(other.step for other in everyone)
    if age > SILENT_SECONDS:
        return f"no sign of life for {age:.0f} s (frozen, or it gets no CPU time)"
    if heartbeat.step < furthest:
        return f"is at step {heartbeat.step}, others at {furthest}"
    if heartbeat.phase != "train" and any(other.phase == "train" for other in everyone):
        return f"is in the phase {heartbeat.phase!r}, while others train"
    if not heartbeat.arrived and any(other.arrived for other in everyone):
        return f"has not computed its part of step {heartbeat.step + 1} (no data, or no end of it)"
    return None


class Watchdog:
    """Watches one rank from `with` to its end; with `step_seconds` 0 it does nothing."""

    def __init__(self, config: WatchdogConfig, launched: Rank | None) -> None:
        self._config = config
        self._rank, self._size = (launched.rank, launched.size) if launched else (0, 1)
        self._heartbeat = Heartbeat(OTHER, 0, arrived=False)
        self._signs = 0
        self._files: HeartbeatFiles | None = None
        self._ended = threading.Event()
        self.last_words: Callable[[], None] | None = None
        """Tells what else is known when this rank is ended."""
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    @property
    def step(self) -> int:
        """Steps done, as last told."""
        return self._heartbeat.step

    def __enter__(self) -> Self:
        if self._config.step_seconds:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._config.step_seconds:
            return
        self._ended.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        if self._files is not None:
            self._files.close()

    def share(self, run: Path) -> None:
        """Let the ranks of a run on this node see each other's state from now on."""
        if self._config.step_seconds and self._size > 1:
            self._files = HeartbeatFiles(run, self._rank, self._size)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell what a block does. Only "train" has the limit of a step."""
        before = self._heartbeat.phase
        self._tell(name, self._heartbeat.step, arrived=False)
        try:
            yield
        finally:
            self._tell(before, self._heartbeat.step, arrived=False)

    def beat(self, step: int, *, arrived: bool) -> None:
        """Tell the steps done, as often as one likes: only another number is progress.

        Args:
            step: steps done.
            arrived: whether this rank waits for the others' parts of the next.
        """
        if step != self._heartbeat.step:
            self._signs += 1
        self._heartbeat = Heartbeat(self._heartbeat.phase, step, arrived)

    def alive(self) -> None:
        """Tell of progress that is no step, such as a batch of an evaluation."""
        self._signs += 1

    def _tell(self, phase: str, step: int, *, arrived: bool) -> None:
        self._signs += 1
        self._heartbeat = Heartbeat(phase, step, arrived)
        if self._files is not None:
            self._files.write(self._heartbeat)

    def _watch(self) -> None:
        seen, idle, unsaid = self._signs, 0.0, HEARTBEAT_SECONDS
        longest = max(self._config.step_seconds, self._config.startup_seconds)
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
            f"rank {self._rank}: late is {late}",
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(all_threads=True)
        if self.last_words is not None:
            self.last_words()
