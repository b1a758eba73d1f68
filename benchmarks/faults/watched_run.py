"""A training that is started, watched, and restarted whenever it ends."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import Signals
from typing import IO, Any

import psutil

from common.errors import UserError
from common.waiting import wait_until
from trainer.checkpoints.format import DONE
from trainer.distributed.watchdog import HeartbeatFiles

ROOT = Path(__file__).resolve().parents[2]
RANKS = 2


class WatchedRun:
    """A run that is started, watched, and restarted whenever it ends."""

    def __init__(self, folder: Path, name: str, options: Sequence[str], log: IO[bytes]) -> None:
        self.run = folder / "runs" / name
        self._command = [sys.executable, "-m", "trainer", *options, "--name", name]
        self._folder, self._log = folder, log
        self.process = self._start()

    def again(self) -> None:
        """Run the command again."""
        self.process = self._start()

    def again_if_ended(self) -> int | None:
        """Run the command again if it has ended by itself.

        Returns:
            Exit status of the command that has ended; None if it still runs.

        Raises:
            UserError: The run has finished, so no further command would do anything.
        """
        if self.process.poll() is None:
            return None
        status = self.wait(60)
        if status == 0:
            raise UserError("the run finished before the last fault; use more --epochs")
        self.again()
        return status

    def require(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until a condition holds while the run is running.

        A rank that is asked to stop during start-up takes one step before it stops, so a run may
        still end after it has resumed. Its command is run again, and the time starts anew.

        Raises:
            UserError: The condition did not hold in time, or the run has finished.
        """
        while True:
            require(lambda: self.process.poll() is not None or condition(), seconds, what)
            if self.again_if_ended() is None:
                return

    def wait(self, seconds: float) -> int:
        """Wait until the launcher ends by itself, and return its exit status; no rank is left."""
        status = self.process.wait(seconds)
        # Ranks whose launcher was killed save and end by themselves.
        require(lambda: not self.ranks(), 60, "the ranks have ended")
        return status

    def ranks(self) -> dict[str, int]:
        """Return the process ids of the ranks that are alive."""
        launcher = str(self.process.pid)
        return {
            f"rank {variables['HOROVOD_RANK']}": process.pid
            for process in psutil.process_iter(["environ"])
            if (variables := process.info["environ"] or {}).get("TRAINER_LAUNCHER_PID") == launcher
            and "HOROVOD_RANK" in variables
        }

    def target(self, name: str) -> int | None:
        """Return the process id of the launcher or a rank."""
        return self.process.pid if name == "launcher" else self.ranks().get(name)

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the run's metrics.jsonl."""
        try:
            text = (self.run / "metrics.jsonl").read_text()
        except OSError:
            return []
        # The last line may be half written.
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def starts(self) -> list[dict[str, Any]]:
        """Return the `start` lines of attempts that took a step."""
        return [line for line in self.lines() if line["event"] == "start"]

    def phase(self) -> str | None:
        """Return the phase that rank 0 of the current command reports."""
        heartbeat, age = HeartbeatFiles(self.run, 0, RANKS).read().get(0, (None, 0.0))
        # A command that was killed leaves the file of its ranks.
        fresh = time.time() - age >= self._started
        return heartbeat.phase if heartbeat and fresh else None

    def trains(self) -> bool:
        """Return whether an attempt has taken a step, and rank 0 reports a phase."""
        return bool(self.starts()) and self.phase() is not None

    def saving(self) -> bool:
        """Return whether a checkpoint is being written."""
        newest = max((self.run / "checkpoints").glob("step-*"), key=_modified, default=None)
        return newest is not None and not (newest / DONE).exists()

    def kill(self) -> None:
        """Kill all remaining processes."""
        for pid in [*self.ranks().values(), self.process.pid]:
            if pid != self.process.pid or self.process.poll() is None:
                os.kill(pid, Signals.SIGKILL)
        self.process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._started = time.time()
        return subprocess.Popen(
            self._command, cwd=self._folder, stdout=self._log, stderr=self._log, env=env
        )


def require(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds; it is checked often, as some phases are short.

    Raises:
        UserError: The condition did not hold in time.
    """
    if not wait_until(condition, seconds, poll_seconds=0.001):
        raise UserError(f"waited {seconds:.0f} s in vain until {what}")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
