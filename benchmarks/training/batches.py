"""Accuracy on an embedded data set by global batch, with momentum and with LARS.

Every training is one rank whose batch is the global batch, which is the same arithmetic as several
ranks, except that batch norm sees the whole batch.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from benchmarks.measure import BenchmarkOptions, columns, spread
from common.annotations import Bounds
from trainer.config import Positive
from trainer.training.plan import EMBEDDED_EXAMPLES


@dataclass(frozen=True)
class Problem:
    """What is trained."""

    rate: float
    """Momentum's rate per 256 images: that of the preset."""
    lars_rate: float
    """Rate of LARS at 1,024 images; at other batches it follows the square root of their size."""
    key: str
    """Key of the metric."""
    metric: str
    """Name of the metric."""
    arguments: tuple[str, ...] = ()


PROBLEMS: Final[Mapping[str, Problem]] = {
    "digits": Problem(
        0.4, 32.0, "top1", "top-1",
        ("--model.depth", "18", "--evaluation.batch-size", "360"),
    ),
    "scenes": Problem(6.0, 32.0, "foreground_iou", "mean IoU without background"),
}  # fmt: skip
"""Problems by the names of their presets."""

USUAL: Final = 0.9
"""Momentum of batch norm's running statistics."""
FOR_FEW_STEPS: Final = 0.5
"""The same, for statistics that must follow within few steps."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Epochs until a held-out accuracy, and the accuracy at the end, by global batch: momentum with
    the linear rule and with half its rate, and LARS.
    """

    preset: Literal["digits", "scenes"] = "digits"
    """Embedded data set, with its preset."""

    batches: Annotated[tuple[int, ...], Positive] = (64, 256, 1024)
    """Global batches, at most all training images."""

    seeds: tuple[int, ...] = (0, 1)
    """Seeds, with one training of each contender for each."""

    epochs: Annotated[int, Bounds(at_least=3)] = 20
    """Epochs of each training, of which two are warm-up."""

    target: Annotated[float, Bounds(above=0, at_most=1)] = 0.95
    """Accuracy to reach, such as top-1 as a fraction of the held-out images."""

    few_steps: Annotated[int, Positive] = 100
    """Trainings of fewer steps are also done with `FOR_FEW_STEPS`."""


@dataclass(frozen=True)
class Contender:
    """One way to train."""

    batch: int
    optimizer: str
    batch_norm_momentum: float
    arguments: tuple[str, ...]
    """Options of the trainer that choose optimizer and rate."""


def contenders(options: Options) -> list[Contender]:
    """Return all ways to train, the batches in order."""
    found, problem = [], PROBLEMS[options.preset]
    for batch in options.batches:
        lars, rate = problem.lars_rate * math.sqrt(batch / 1024), problem.rate
        ways = {
            f"momentum, {rate * batch / 256:.3g} (linear rule)": _momentum(rate),
            f"momentum, {rate * batch / 512:.3g} (half of it)": _momentum(rate / 2),
            f"LARS, {lars:.3g}": (
                *("--optimizer.kind", "lars", "--optimizer.nesterov", "False"),
                *("--optimizer.rate-scaling", "none", "--optimizer.learning-rate", f"{lars}"),
                *("--optimizer.schedule", "polynomial"),
            ),
        }
        few = options.epochs * EMBEDDED_EXAMPLES[options.preset] < options.few_steps * batch
        found += [
            Contender(batch, name, momentum, arguments)
            for name, arguments in ways.items()
            for momentum in ((USUAL, FOR_FEW_STEPS) if few else (USUAL,))
        ]
    return found


def _momentum(rate: float) -> tuple[str, ...]:
    return ("--optimizer.learning-rate", f"{rate}")


def measure(options: Options) -> dict[str, Any]:
    """Train every contender once per seed."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for contender in contenders(options):
            rounds = [
                train(contender, seed, options, Path(scratch) / "runs") for seed in options.seeds
            ]
            rows.append({**asdict(contender), "rounds": rounds})
    return {"rows": rows}


def train(contender: Contender, seed: int, options: Options, runs: Path) -> dict[str, Any]:
    """Train once; return the number of steps, the accuracy after each epoch and at the end."""
    name, problem = f"run-{len(list(runs.glob('run-*')))}", PROBLEMS[options.preset]
    command = [
        *(sys.executable, "-m", "trainer", "train", "--preset", options.preset, "--name", name),
        *("--runs-dir", str(runs), "--ranks", "1", "--restarts", "0", "--seed", str(seed)),
        *("--batch-size", str(contender.batch), "--epochs", str(options.epochs)),
        *problem.arguments,
        *("--export", "False"),
        *("--log.report", "False", "--checkpoint.every-epochs", "0"),
        *("--model.batch-norm-momentum", str(contender.batch_norm_momentum)),
        *contender.arguments,
    ]
    print("$", " ".join(command[1:]), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = map(json.loads, (runs / name / "metrics.jsonl").read_text().splitlines())
    result = json.loads((runs / name / "result.json").read_text())
    scores = [line[problem.key] for line in lines if line["event"] == "evaluation"]
    return {"steps": result["steps"], "score": result[problem.key], "after_epochs": scores}


def show(data: Mapping[str, Any]) -> str:
    """Format a table with a row for each contender."""
    target = data["options"]["target"]
    rows = [
        [
            "global batch, steps",
            "optimizer, peak rate",
            "momentum of batch norm's statistics",
            f"epochs to {target:.0%}",
            f"{PROBLEMS[data['options']['preset']].metric} at the end",
        ]
    ]
    for row in data["rows"]:
        ends = spread([result["score"] for result in row["rounds"]])
        rows.append(
            [
                f"{row['batch']:,}, {row['rounds'][0]['steps']}",
                row["optimizer"],
                f"{row['batch_norm_momentum']:g}",
                ", ".join(_reached(result["after_epochs"], target) for result in row["rounds"]),
                f"{ends.low:.1%}" + (f" to {ends.high:.1%}" if len(row["rounds"]) > 1 else ""),
            ]
        )
    return columns(rows)


def _reached(after_epochs: list[float], target: float) -> str:
    """Return the first epoch, counted from 1, whose evaluation reached the target."""
    epochs = (number for number, score in enumerate(after_epochs, 1) if score >= target)
    return str(next(epochs, "never"))
