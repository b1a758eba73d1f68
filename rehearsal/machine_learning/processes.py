"""The processes of a job: started together, ended together."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from common.waiting import wait_until
from rehearsal.lifetime import Reaper, pids_marked, signal_marked

_POLL_SECONDS = 0.05
_MPIRUN_SECONDS = 5.0
_KILLED = 137
"""Exit status of a process that SIGKILL has ended."""


@dataclass(frozen=True)
class RankProgram:
    """The program of one rank."""

    command: str
    folder: Path
    environment: Mapping[str, str]
    log: Path


@dataclass(frozen=True)
class ExitStatus:
    """How the processes of a job ended."""

    status: int
    """Exit status 0, or that of the first process that failed."""
    rank: int = 0
    """Rank of the first process that failed."""


class JobProcesses(Protocol):
    """The running processes of one job."""

    def wait(self) -> ExitStatus:
        """Wait until all have ended."""

    def end(self, grace_seconds: float) -> None:
        """Ask all to end, and kill those that have not ended after the grace period."""

    def kill(self) -> None:
        """Kill all immediately, with their child processes."""

    def lose(self, ranks: Collection[int]) -> None:
        """Kill some ranks, as if their node was gone; the others are not told.

        Raises:
            AzureError: the processes cannot be told apart.
        """


class LocalProcesses:
    """Processes of this machine, one per rank."""

    def __init__(self, programs: Sequence[RankProgram], reaper: Reaper, part: str) -> None:
        """Start the processes.

        Args:
            programs: One program per rank.
            reaper: Ends them if the owner dies.
            part: Part of the reaper's mark for these processes only.
        """
        self._reaper = reaper
        self._part = part
        self._mark = f"{reaper.mark}/{part}"
        self._ending = threading.Event()
        self._lost: set[int] = set()
        """Ranks whose node is gone."""
        self._processes: list[subprocess.Popen[bytes]] = []
        for program in programs:
            program.log.parent.mkdir(parents=True, exist_ok=True)
            with program.log.open("wb") as log:
                process = subprocess.Popen(
                    ["/bin/bash", "-c", program.command],
                    cwd=program.folder,
                    env=reaper.marked(program.environment, part),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._processes.append(process)

    def wait(self) -> ExitStatus:
        """Wait until all have ended; if one fails, end the others as mpirun does."""
        first: ExitStatus | None = None
        while True:
            codes = [process.poll() for process in self._processes]
            failed = [
                rank
                for rank, code in enumerate(codes)
                if code not in {None, 0} and rank not in self._lost
            ]
            if failed and first is None:
                code = codes[failed[0]] or 1
                first = ExitStatus(code if code > 0 else 128 - code, failed[0])
                if not self._ending.is_set():
                    self.end(_MPIRUN_SECONDS)
            elif None not in codes:
                # Child processes that a rank has left end with it, as its container would.
                self.kill()
                gone = min(self._lost, default=None)
                return first or (ExitStatus(0) if gone is None else ExitStatus(_KILLED, gone))
            else:
                time.sleep(_POLL_SECONDS)

    def end(self, grace_seconds: float) -> None:
        """Send SIGTERM to all, and kill those that do not end."""
        self._ending.set()
        signal_marked(self._mark, signal.SIGTERM)
        wait_until(lambda: not pids_marked(self._mark), grace_seconds, _POLL_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill all, with their child processes."""
        for process in self._processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self._reaper.kill(self._part)
        for process in self._processes:
            process.wait()

    def lose(self, ranks: Collection[int]) -> None:
        """Kill some ranks, as if their node was gone; the others are not told."""
        self._lost |= set(ranks)
        for rank in ranks:
            if self._processes[rank].poll() is None:
                os.killpg(self._processes[rank].pid, signal.SIGKILL)
