"""Agreement of predictions on re-encoded photographs with those on the originals.

A network of the preset `images` is trained on crops of ten photographs to tell from which one a
crop is. It then classifies other crops of them twice: as they are stored, and as `--reencode` makes
them.
"""

import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.data.input import SHAPING
from benchmarks.data.photos import write_photos
from benchmarks.measure import BenchmarkOptions, columns
from benchmarks.processes import in_process
from common.errors import UserError
from trainer.config import Positive

TRAINING_SEED, HELD_OUT_SEED = 0, 1
NORMAL_QUANTILE: Final = 1.96
"""Of the normal distribution, for intervals of 95 %."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """How often a network predicts the same class for a re-encoded photograph as for the original,
    and how often each is right, with intervals of 95 %.
    """

    training_images: Annotated[int, Positive] = 500
    """Crops of photographs to train on."""

    images: Annotated[int, Positive] = 1000
    """Other crops to classify."""

    epochs: Annotated[int, Positive] = 15
    """Epochs to train."""

    image_size: Annotated[int, Positive] = 64
    """Height and width of the network's input, in pixels."""


def measure(options: Options) -> dict[str, Any]:
    """Train a network and count its predictions."""
    with tempfile.TemporaryDirectory() as scratch:
        photos, data, runs = (f"{scratch}/{name}" for name in ("photos", "data", "runs"))
        held_out = f"{scratch}/held-out"
        write_photos(Path(photos), options.training_images, TRAINING_SEED)
        write_photos(Path(held_out), options.images, HELD_OUT_SEED)
        _trainer("prepare", "folder", "--input", photos, "--output", data)
        training = ["train", "--preset", "images", "--data.dir", data, "--runs-dir", runs]
        size = ["--model.image-size", str(options.image_size), "--epochs", str(options.epochs)]
        _trainer(*training, *size, "--name", "originals")
        return in_process(
            "benchmarks.data.reencode_predictions:count",
            run=f"{runs}/originals",
            folder=held_out,
            reencode=SHAPING[1],
        )


def _trainer(*args: str) -> None:
    if subprocess.run([sys.executable, "-m", "trainer", *args], check=False).returncode:
        raise UserError("the trainer failed; see its output above")


def show(data: Mapping[str, Any]) -> str:
    """Format a table of counts with their intervals."""
    total = data["images"]
    rows = [["", f"of {total:,} photographs", "95 % interval"]]
    for name in ("same prediction", "right on the original", "right on the re-encoded image"):
        low, high = wilson(data[name], total)
        rows.append([name, f"{data[name] / total:.1%}", f"{low:.1%}-{high:.1%}"])
    gained, lost = data["right only re-encoded"], data["right only on the original"]
    return (
        f"{columns(rows)}\n\n{lost} are right only on the original, {gained} only on the re-encoded"
        " image."
    )


def wilson(successes: int, total: int) -> tuple[float, float]:
    """Return the interval of 95 % of a proportion (E. B. Wilson 1927).

    Args:
        successes: Number of successes.
        total: Number of trials, above 0.
    """
    part, square = successes / total, NORMAL_QUANTILE**2
    centre = (part + square / (2 * total)) / (1 + square / total)
    reach = NORMAL_QUANTILE * math.sqrt(part * (1 - part) / total + square / (4 * total**2))
    reach /= 1 + square / total
    return max(centre - reach, 0.0), min(centre + reach, 1.0)
