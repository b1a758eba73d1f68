"""How a person or a machine asks a run to stop: by a signal.

Open MPI 4.1 ends its ranks by SIGCONT at once, SIGTERM after `odls_base_sigkill_timeout` seconds
and SIGKILL after as many again, so a rank that waits for SIGTERM has half of the time, and by
default one second. Here its SIGCONT counts as the SIGTERM that it announces.
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
"""Programs of Open MPI that end ranks, by the names that Linux keeps, of 15 characters at most."""
_TICK_SECONDS = 0.2
_WAKING_SECONDS = 1.0
"""After a standstill: a busy machine may hand over the SIGCONT that ended it late."""


class StopRequest:
    """The first of the signals asks to stop after the running step, a second SIGINT ends the
    process at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that came first."""
        self._tell: Callable[[], None] | None = None

    def install(self) -> None:
        """Handle the signals from now on; only the main thread may call it."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._handle)

    def attach(self, tell: Callable[[], None]) -> None:
        """Name what is called in a signal handler; at once, if the signal has come before."""
        self._tell = tell
        if self.signal is not None:
            tell()

    def detach(self) -> None:
        """Call nothing any more, and keep nothing alive."""
        self._tell = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:
                os._exit(128 + number)
            return
        self.signal = number
        if self._tell is not None:
            self._tell()
        # The terminal may be what has gone, and a handler may interrupt a print.
        with suppress(OSError, RuntimeError):
            print("stopping after this step; Ctrl-C again to leave at once", file=sys.stderr)


def started_by_mpirun(env: Mapping[str, str]) -> bool:
    """Whether Open MPI has started this process."""
    return "OMPI_COMM_WORLD_RANK" in env


def hold_sigcont() -> None:
    """Hold SIGCONT back for `listen_for_mpirun`; to be called before any other thread is started.

    A signal that is ignored unless it is held back would be lost to any other thread.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})


def listen_for_mpirun() -> None:
    """From now on turn mpirun's SIGCONT into SIGTERM, in a thread of its own."""
    threading.Thread(target=_listen_for_mpirun, name="mpirun-stop", daemon=True).start()


def _listen_for_mpirun() -> None:
    launcher = _launcher()
    before = time.monotonic()
    awake_since = before - _WAKING_SECONDS
    while True:
        came = signal.sigtimedwait({signal.SIGCONT}, _TICK_SECONDS)
        now = time.monotonic()
        # Somebody's Ctrl-Z and `fg`, or SIGSTOP and SIGCONT, of this rank or of mpirun, which
        # passes SIGCONT on: that is no end. Who stood still for another reason has SIGTERM to come.
        if (came is None and _stopped(launcher)) or now - before > 2 * _TICK_SECONDS:
            awake_since = now
        before = now
        woken = now - awake_since < _WAKING_SECONDS
        if came is not None and not woken and _process_status(came.si_pid)[0] in MPIRUN_PROGRAMS:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _launcher() -> int:
    """The nearest process above this one that may end it; 0 if none is seen."""
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
    """Name, state and parent of a process; nothing if it is gone, or of another container."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The name is in parentheses, and may have some itself.
        name, _, rest = text.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        return name, state, int(parent)
    return "", "", 0
