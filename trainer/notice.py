"""The notice that mpirun gives before it ends a rank.

Open MPI 4.1 ends its ranks by SIGCONT at once, SIGTERM after `odls_base_sigkill_timeout` seconds
and SIGKILL after as many again, so a rank that waits for SIGTERM has half of the time, and by
default one second. Here its SIGCONT counts as the SIGTERM that it announces.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

LAUNCHERS = frozenset({"mpirun", "mpirun.openmpi", "mpiexec", "mpiexec.openmp", "orterun", "orted"})
"""Programs of Open MPI that end ranks, by the 15 characters that Linux keeps of a name."""

_TICK_SECONDS = 1.0


def expects(env: Mapping[str, str]) -> bool:
    """Whether Open MPI has started this process."""
    return "OMPI_COMM_WORLD_RANK" in env


def keep() -> None:
    """Hold SIGCONT back for `listen`; to be called before any other thread is started.

    A signal that is ignored unless it is held back would be lost to any other thread.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})


def listen() -> None:
    """From now on turn mpirun's SIGCONT into SIGTERM, in a thread of its own."""
    threading.Thread(target=_listen, name="notice", daemon=True).start()


def _listen() -> None:
    before = time.monotonic()
    awake_since = before - _TICK_SECONDS
    while True:
        came = signal.sigtimedwait({signal.SIGCONT}, _TICK_SECONDS)
        now = time.monotonic()
        if now - before > 2 * _TICK_SECONDS:
            awake_since = now
        before = now
        # Somebody's Ctrl-Z and `fg`: mpirun passes both on, and that is no end.
        woken = now - awake_since < _TICK_SECONDS
        if came is not None and not woken and _name(came.si_pid) in LAUNCHERS:
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _name(pid: int) -> str:
    """Of a process; empty if it is gone, or of another container."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""
