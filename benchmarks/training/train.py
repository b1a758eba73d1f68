"""How much of two cores is left for training when two ranks exchange gradients.

Weak scaling against two *independent* trainings that run at the same time, each on a core of its
own with one thread: they share memory and cache as the ranks do, so what is missing is the exchange
and the waiting for each other, and nothing else. Each figure is of a whole
`python -m trainer train`, as a person starts it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.tables import ALONE, APART, SHIPPED_CYCLE_MS, together
from common.errors import UserError
from trainer.config import ExchangeConfig

DEFAULT_CYCLE_MS = ExchangeConfig().cycle_time_ms


class Contenders:
    """Trainings of synthetic images of one size."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._folder, self._options = folder, options
        self._runs = 0

    def rates(self) -> dict[str, float]:
        """One round: images a second of all processes of each contender together."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise UserError("scaling needs two processor cores; this machine has one")
        alone = ["--ranks", "1"]
        cycles = dict.fromkeys((SHIPPED_CYCLE_MS, DEFAULT_CYCLE_MS))
        return {
            ALONE: self._together([(alone, {cores[0]})]),
            APART: self._together([(alone, {core}) for core in cores[:2]]),
            **{
                together(cycle): self._together(
                    [(["--ranks", "2", "--exchange.cycle-time-ms", str(cycle)], set(cores[:2]))]
                )
                for cycle in cycles
            },
        }

    def _together(self, trainings: Sequence[tuple[list[str], set[int]]]) -> float:
        """Run trainings at the same time; the sum of their rates."""
        started = [self._start(options, cores) for options, cores in trainings]
        rate = 0.0
        try:
            for run, process in started:
                out, _ = process.communicate()
                if process.returncode:
                    raise UserError(f"a training failed:\n{out}")
                rate += json.loads((run / "result.json").read_text())["images_per_second"]
        finally:
            for _, process in started:
                process.kill()
                process.wait()
        return rate

    def _start(self, options: list[str], cores: set[int]) -> "tuple[Path, subprocess.Popen[str]]":
        self._runs += 1
        run = self._folder / f"run-{self._runs}"
        command = [sys.executable, "-m", "trainer", "train", "--preset", "synthetic"]
        command += ["--runs-dir", str(self._folder), "--name", run.name, "--log.report", "False"]
        # A figure is of one attempt, and a single rank has the core to itself.
        command += ["--restarts", "0"]
        with _only_on(cores):
            process = subprocess.Popen(
                [*command, *self._options, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return run, process


@contextmanager
def _only_on(cores: set[int]) -> Iterator[None]:
    """Let processes that are started inside run only on some cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
