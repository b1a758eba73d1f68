"""A training that is started, watched, and restarted whenever it ends."""

import json
import os
import subprocess
import sys
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
        """Return the phase that rank 0 reports."""
        heartbeat = HeartbeatFiles(self.run, 0, RANKS).read().get(0)
        return heartbeat[0].phase if heartbeat else None

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
