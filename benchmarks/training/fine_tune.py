"""Held-out accuracy of few images, from random weights and from the weights of a run on others.

The images are the embedded digits. A run on those of 0 to 4 makes the weights; the runs that are
compared see few images of each of 5 to 9, classes that those weights have not seen, and are
evaluated once, at their end, on the 36 held-out images of each.
"""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, spread
from common.annotations import Bounds
from trainer.data.builtin.digits import (
    VALIDATION_PER_CLASS,
    load_records,
    split,
)
from trainer.data.builtin.writer import normalization_of, write_data_set
from trainer.data.example import Record
from trainer.data.manifest import Normalization

FIRST: Final = tuple("01234")
"""Classes of the run that makes the weights."""
SECOND: Final = tuple("56789")
"""Classes of the runs that are compared."""
EPOCHS: Final = 40
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    f"random weights, {EPOCHS} epochs": (),
    f"random weights, {4 * EPOCHS} epochs": ("--epochs", str(4 * EPOCHS)),
    f"weights of 0 to 4, {EPOCHS} epochs": ("--model.weights", "{weights}"),
}
"""Options of the trainer, by the words for what a run begins with."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Held-out accuracy on few digits of 5 to 9: of random weights, and of the weights of a run on
    0 to 4 (fine-tuning).
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the runs and of the choice of images; each has weights of its own."""

    images: Annotated[tuple[int, ...], Bounds(at_least=2, at_most=100)] = (5,)
    """Training images of each class."""


def measure(options: Options) -> dict[str, Any]:
    """Train every way once for each seed and number of images."""
    train, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    # That of the run that makes the weights, as for published weights.
    normal = normalization_of([record for record in train if record.text in FIRST])
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for seed in options.seeds:
            first = folder / f"first-{seed}"
            _write(first, train, held_out, FIRST, normal)
            _train(first, seed, ("--epochs", "10", "--batch-size", "32"))
            weights = next(
                (folder / "runs" / first.name / "checkpoints").glob("*/state.safetensors")
            )
            for images in options.images:
                data = folder / f"second-{seed}-{images}"
                _write(data, _few(train, images, seed), held_out, SECOND, normal)
                for way, arguments in WAYS.items():
                    given = [text.format(weights=weights) for text in arguments]
                    top1 = _train(data, seed, given)["top1"]
                    rows.append({"seed": seed, "images": images, "way": way, "top1": top1})
    return {"rows": rows}


def show(data: Mapping[str, Any]) -> str:
    """Format a table with a row for each way, and a column for each number of images."""
    numbers = data["options"]["images"]
    table = [["a run begins with", *(f"top-1 with {number} images a class" for number in numbers)]]
    for way in WAYS:
        cells = []
        for number in numbers:
            found = spread(
                [
                    row["top1"]
                    for row in data["rows"]
                    if (row["way"], row["images"]) == (way, number)
                ]
            )
            cells.append(f"{found.median:.1%} ({found.low:.1%} to {found.high:.1%})")
        table.append([way, *cells])
    return columns(table)


def _few(records: Sequence[Record], images: int, seed: int) -> list[Record]:
    """Return some records of each class of `SECOND`."""
    shuffled = sorted(records, key=lambda record: record.filename)
    random.Random(seed).shuffle(shuffled)
    return [
        record
        for name in SECOND
        for record in [one for one in shuffled if one.text == name][:images]
    ]


def _write(
    folder: Path,
    train: Sequence[Record],
    held_out: Sequence[Record],
    classes: tuple[str, ...],
    normal: Normalization,
) -> None:
    """Write the records of some classes, whose labels are counted from 0."""
    labels = {name: label for label, name in enumerate(classes)}
    learned, evaluated = (
        [replace(one, label=labels[one.text]) for one in part if one.text in labels]
        for part in (train, held_out)
    )
    command = "python -m benchmarks fine-tune"
    write_data_set(folder, learned, evaluated, classes, normal, command)


def _train(data: Path, seed: int, arguments: Sequence[str]) -> dict[str, Any]:
    """Train once, with other options than the preset's; return result.json."""
    runs = data.parent / "runs"
    name = data.name if data.name.startswith("first") else f"run-{len(list(runs.glob('run-*')))}"
    command = [
        *(sys.executable, "-m", "trainer", "train", "--name", name, "--runs-dir", str(runs)),
        *("--data.source", "tfrecords", "--data.dir", str(data), "--seed", str(seed)),
        *("--ranks", "1", "--restarts", "0", "--model.depth", "18", "--batch-size", "10"),
        *("--epochs", str(EPOCHS), "--evaluation.every-epochs", "0", "--checkpoint.keep", "1"),
        *("--checkpoint.every-epochs", "0", "--export", "False", "--log.report", "False"),
        *arguments,
    ]
    print("$", " ".join(command[1:]), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads((runs / name / "result.json").read_text())
    return result
