"""The processes of a job: started together, ended together."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.reaper import Guard, pids_marked, signal_marked

_POLL_SECONDS = 0.05
_MPIRUN_SECONDS = 5.0


@dataclass(frozen=True)
class Program:
    """One process."""

    command: str
    folder: Path
    environment: Mapping[str, str]
    log: Path


@dataclass(frozen=True)
class Ended:
    """How the processes ended."""

    status: int
    """0, or that of the first that failed."""
    rank: int = 0
    """Which failed first."""


class Ranks:
    """Processes of one job."""

    def __init__(self, programs: Sequence[Program], guard: Guard, part: str) -> None:
        """Start them.

        Args:
            programs: one a rank.
            guard: ends them if the owner dies.
            part: of the guard's mark, for these alone.
        """
        self._guard = guard
        self._mark = f"{guard.mark}/{part}"
        self._ending = threading.Event()
        self._processes: list[subprocess.Popen[bytes]] = []
        for program in programs:
            program.log.parent.mkdir(parents=True, exist_ok=True)
            with program.log.open("wb") as log:
                process = subprocess.Popen(
                    ["/bin/bash", "-c", program.command],
                    cwd=program.folder,
                    env=guard.marked(program.environment, part),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._processes.append(process)

    def wait(self) -> Ended:
        """Wait until all have ended; when one fails, the others are ended as mpirun does."""
        first: Ended | None = None
        while True:
            codes = [process.poll() for process in self._processes]
            failed = [rank for rank, code in enumerate(codes) if code not in {None, 0}]
            if failed and first is None:
                code = codes[failed[0]] or 1
                first = Ended(code if code > 0 else 128 - code, failed[0])
                if not self._ending.is_set():
                    self.end(_MPIRUN_SECONDS)
            elif None not in codes:
                # What a rank has left behind ends with it, as its container does.
                self.kill()
                return first or Ended(0)
            else:
                time.sleep(_POLL_SECONDS)

    def end(self, grace_seconds: float) -> None:
        """Ask all to end, and kill those that do not."""
        self._ending.set()
        signal_marked(self._mark, signal.SIGTERM)
        deadline = time.monotonic() + grace_seconds
        while pids_marked(self._mark) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill all, and all that they have started."""
        for process in self._processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self._guard.kill(self._mark.partition("/")[2])
        for process in self._processes:
            process.wait()
