"""Signals by which a user or a machine asks a run to stop.

Open MPI 4.1 ends its ranks by an immediate SIGCONT, SIGTERM after `odls_base_sigkill_timeout`
seconds and SIGKILL after as many again. A rank that waits for SIGTERM loses half of that time and
has, by default, one second. Here the SIGCONT counts as the SIGTERM that it announces.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

from trainer.errors import STOP_SIGNALS

MPIRUN_PROGRAMS = frozenset(
    {"mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "orterun", "orted"}
)
"""Programs of Open MPI that end ranks, by process name, of at most 15 characters on Linux."""
_TICK_SECONDS = 0.2
_WAKING_SECONDS = 1.0
"""Time after a stop in which SIGCONT belongs to it; a busy machine delivers the signal late."""


class StopRequest:
    """A request to stop after the current step, made by the first of the stop signals; a second
    SIGINT ends the process immediately.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The first signal received, or None."""
        self._tell: Callable[[], None] | None = None

    def install(self) -> None:
        """Install the signal handlers; only the main thread may call it."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._handle)

    def attach(self, tell: Callable[[], None]) -> None:
        """Set the function that the signal handler calls; call it now if a signal has come."""
        self._tell = tell
        if self.signal is not None:
            tell()

    def detach(self) -> None:
        """Drop the function, and the reference to it."""
        self._tell = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:
                os._exit(128 + number)
            return
        self.signal = number
        if self._tell is not None:
            self._tell()
        # The terminal may be gone, or the handler may have interrupted another print.
        with suppress(OSError, RuntimeError):
            print(
                "stopping as soon as nothing is lost; press Ctrl-C again to stop now",
                file=sys.stderr,
            )


def started_by_mpirun(env: Mapping[str, str]) -> bool:
    """Return whether Open MPI has started this process."""
    return "OMPI_COMM_WORLD_RANK" in env


def hold_sigcont() -> None:
    """Block SIGCONT for `listen_for_mpirun`; call it before any other thread is started.

    Another thread that does not block SIGCONT could receive it, and it would be lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})


def listen_for_mpirun() -> None:
    """Start a thread that turns mpirun's SIGCONT into SIGTERM."""
    # A stop may come before the thread runs, and has to be seen as a stop.
    begin = time.monotonic()
    threading.Thread(
        target=_listen_for_mpirun, args=(begin,), name="mpirun-stop", daemon=True
    ).start()


def _listen_for_mpirun(before: float) -> None:
    launcher = _launcher()
    awake_since = before - _WAKING_SECONDS
    while True:
        came = signal.sigtimedwait({signal.SIGCONT}, _TICK_SECONDS)
        now = time.monotonic()
        # Ctrl-Z and `fg`, or SIGSTOP and SIGCONT, of this rank or of mpirun, which forwards
        # SIGCONT, do not end a run. If the rank was stopped otherwise, SIGTERM will follow.
        if (came is None and _stopped(launcher)) or now - before > 2 * _TICK_SECONDS:
            awake_since = now
        before = now
        woken = now - awake_since < _WAKING_SECONDS
        if came is not None and not woken and _process_status(came.si_pid)[0] in MPIRUN_PROGRAMS:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _launcher() -> int:
    """Return the nearest parent process of Open MPI, which may end this one; 0 without one."""
    pid = os.getppid()
    while pid:
        name, _, parent = _process_status(pid)
        if name in MPIRUN_PROGRAMS:
            return pid
        pid = parent
    return 0


def _stopped(pid: int) -> bool:
    return _process_status(pid)[1] == "T"


def _process_status(pid: int) -> tuple[str, str, int]:
    """Return name, state and parent of a process; empty if it is gone or in another container."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name is in parentheses, and may contain parentheses itself.
        name, _, rest = text.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        return name, state, int(parent)
    return "", "", 0
