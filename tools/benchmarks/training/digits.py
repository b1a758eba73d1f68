"""Held-out accuracy and time of the digits preset, the first run, over several seeds.

Trains the preset as `make train` does, once per seed, and evaluates the final weights on the 360
held-out images.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from common.annotations import Positional
from tools.benchmarks.measure import BenchmarkOptions, spread


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Held-out accuracy and time of the digits preset over several seeds. Options after `--` are
    passed to the trainer.
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, with one training for each."""

    trainer: Annotated[tuple[str, ...], Positional("[OPTION...]")] = ()
    """Options of the trainer, given after `--`."""


def measure(options: Options) -> dict[str, Any]:
    """Train once per seed."""
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        rounds = [train(seed, options.trainer, runs) for seed in options.seeds]
    return {"rounds": rounds}


def show(data: Mapping[str, Any]) -> str:
    """Format one line per seed, and the medians."""
    rounds = data["rounds"]
    lines = [f"{'seed':>4}  {'held-out top-1':>14}  {'seconds':>7}  {'images/s':>8}"]
    for seed, result in zip(data["options"]["seeds"], rounds, strict=True):
        lines.append(
            f"{seed:>4}  {result['top1']:>14.2%}  {result['training_seconds']:>7.1f}"
            f"  {result['images_per_second']:>8.1f}"
        )
    accuracy = spread([result["top1"] for result in rounds])
    seconds = spread([result["training_seconds"] for result in rounds])
    lines.append(
        f"median {accuracy.median:.2%} ({accuracy.low:.2%} to {accuracy.high:.2%})"
        f" in {seconds.median:.1f} s ({seconds.low:.1f} to {seconds.high:.1f})"
    )
    return "\n".join(lines)


def train(seed: int, options: Sequence[str], runs: Path) -> dict[str, Any]:
    """Train one seed and return its result.json."""
    name = f"seed-{seed}"
    command = [sys.executable, "-m", "trainer", "train", "--seed", str(seed), "--name", name]
    # Each figure is that of a single attempt.
    command += ["--runs-dir", str(runs), "--restarts", "0", *options]
    print("$", " ".join(command[1:]), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads((runs / name / "result.json").read_text())
    return result
