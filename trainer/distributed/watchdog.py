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
"""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from trainer.config import WatchdogConfig
from trainer.distributed.heartbeat import HEARTBEAT_SECONDS, Heartbeats, Pulse, late_ranks
from trainer.distributed.rank import Place
from trainer.errors import WATCHDOG_EXIT_CODE

TICK_SECONDS = 1.0
PATIENCE_SECONDS = 3.0
"""How much longer a rank waits that only waits for others: the late one is to tell first."""
EXPLAIN_SECONDS = 10.0
"""Time for the explanation; a terminal or a pipe that takes no more must not keep the process."""
OTHER = "other work"
"""The phase outside of all others: start-up, reports, export."""


class Watchdog:
    """Watches one rank from `with` to its end; with `step_seconds` 0 it does nothing."""

    def __init__(self, config: WatchdogConfig, place: Place | None) -> None:
        self._config = config
        self._rank, self._size = (place.rank, place.size) if place else (0, 1)
        self._pulse = Pulse(OTHER, 0, arrived=False)
        self._signs = 0
        self._heartbeats: Heartbeats | None = None
        self._ended = threading.Event()
        self.last_words: Callable[[], None] | None = None
        """Tells what else is known when this rank is ended."""
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    @property
    def step(self) -> int:
        """Steps done, as last told."""
        return self._pulse.step

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
        if self._heartbeats is not None:
            self._heartbeats.close()

    def share(self, run: Path) -> None:
        """Let the ranks of a run on this node see each other's state from now on."""
        if self._config.step_seconds and self._size > 1:
            self._heartbeats = Heartbeats(run, self._rank, self._size)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Tell what a block does. Only "train" has the limit of a step."""
        before = self._pulse.phase
        self._tell(name, self._pulse.step, arrived=False)
        try:
            yield
        finally:
            self._tell(before, self._pulse.step, arrived=False)

    def beat(self, step: int, *, arrived: bool) -> None:
        """Tell the steps done, as often as one likes: only another number is progress.

        Args:
            step: steps done.
            arrived: whether this rank waits for the others' parts of the next.
        """
        if step != self._pulse.step:
            self._signs += 1
        self._pulse = Pulse(self._pulse.phase, step, arrived)

    def alive(self) -> None:
        """Tell of progress that is no step, such as a batch of an evaluation."""
        self._signs += 1

    def _tell(self, phase: str, step: int, *, arrived: bool) -> None:
        self._signs += 1
        self._pulse = Pulse(phase, step, arrived)
        if self._heartbeats is not None:
            self._heartbeats.write(self._pulse)

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
            if self._heartbeats is not None and unsaid >= HEARTBEAT_SECONDS:
                self._heartbeats.write(self._pulse)
                unsaid = 0.0
            if idle > self._limit():
                self._leave(idle)

    def _limit(self) -> float:
        if self._pulse.phase != "train":
            return self._config.startup_seconds
        return self._config.step_seconds + PATIENCE_SECONDS * self._pulse.arrived

    def _leave(self, idle: float) -> None:
        teller = threading.Thread(target=self._explain, args=(idle,), daemon=True)
        teller.start()
        teller.join(EXPLAIN_SECONDS)
        os._exit(WATCHDOG_EXIT_CODE)

    def _explain(self, idle: float) -> None:
        pulse = self._pulse
        option = "step" if pulse.phase == "train" else "startup"
        late = "this rank, or one that it waits for"
        if self._heartbeats is not None and pulse.phase == "train":
            late = late_ranks(self._heartbeats.read(), self._size)
        print(
            f"rank {self._rank}: no progress for {idle:.0f} s after step {pulse.step}, in the phase"
            f" {pulse.phase!r} (--watchdog.{option}-seconds); its watchdog ends it\n"
            f"rank {self._rank}: late is {late}",
            file=sys.stderr,
            flush=True,
        )
        faulthandler.dump_traceback(all_threads=True)
        if self.last_words is not None:
            self.last_words()
