"""Weak scaling: images/s of two ranks that exchange gradients, on two cores.

The reference is two *independent* runs at the same time, each on a core of its own
with one thread: they share memory and cache as the ranks do, so the only difference is the exchange
and the waiting for each other. Each figure is of a whole `ml-trainer train`, as a user
starts it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from common.errors import UserError
from tools.benchmarks.measure import BenchmarkOptions, columns, spread
from trainer.config import ExchangeConfig, Positive
from trainer.presets import PRESETS

ALONE, APART = "1 rank alone", "2 apart"
SHIPPED_CYCLE_MS = PRESETS["synthetic"].exchange.cycle_time_ms
DEFAULT_CYCLE_MS = ExchangeConfig().cycle_time_ms


def together(cycle_ms: float) -> str:
    """Return the name of the contender of two ranks with a cycle time."""
    return f"2 ranks, {cycle_ms:g} ms cycle"


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s of the synthetic preset: one rank, two independent runs at once, and two ranks,
    with the preset's cycle time and with Horovod's. Takes about half an hour on two cores.
    """

    image_sizes: Annotated[tuple[int, ...], Positive] = (224, 64)
    """Heights and widths of images to train on."""

    steps: Annotated[tuple[int, ...], Positive] = (6, 20)
    """Timed steps of a run, one number for each image size."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each contender."""


def measure(options: Options) -> dict[str, Any]:
    """Measure whole runs on synthetic images."""
    if len(options.steps) != len(options.image_sizes):
        raise UserError("--steps: give one number for each of --image-sizes")
    sizes: dict[int, list[dict[str, float]]] = {}
    for size, steps in zip(options.image_sizes, options.steps, strict=True):
        # One more, because the first step includes compilation and is not timed.
        trainer = ["--model.image-size", str(size), "--max-steps", str(steps + 1)]
        with tempfile.TemporaryDirectory() as folder:
            contenders = Contenders(Path(folder), trainer)
            sizes[size] = []
            for number in range(options.rounds):
                rates = contenders.rates()
                sizes[size].append(rates)
                print(f"{size} pixels, round {number + 1} of {options.rounds}: {rates}", flush=True)
    return {"rounds": sizes}


def show(data: Mapping[str, Any]) -> str:
    """Format a table for each image size."""
    parts = []
    for size, rounds in data["rounds"].items():
        rows = [["", "images/s", "part of 2 apart"]]
        for name in rounds[0]:
            part = spread([rates[name] / rates[APART] for rates in rounds])
            shown = "" if name in (ALONE, APART) else part.text(".1%")
            rows.append([name, spread([rates[name] for rates in rounds]).text(), shown])
        parts += [f"{size} pixels:", columns(rows)]
    return "\n\n".join(parts)


class Contenders:
    """Runs on synthetic images of one size."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._folder, self._options = folder, options
        self._runs = 0

    def rates(self) -> dict[str, float]:
        """Measure one round: images/s of all processes of each contender together."""
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise UserError("this benchmark needs two CPU cores, but the machine has one")
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
        """Start runs at the same time and return the sum of their rates."""
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
        command = ["taskset", "--cpu-list", ",".join(map(str, cores))]
        command += [sys.executable, "-m", "trainer", "train", "--preset", "synthetic"]
        command += ["--runs-dir", str(self._folder), "--name", run.name, "--log.report", "False"]
        # Each figure is of a single attempt, and a single rank has the core to itself.
        command += ["--restarts", "0"]
        process = subprocess.Popen(
            [*command, *self._options, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return run, process
