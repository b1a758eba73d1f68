"""The files about held-out examples that a report on several classes per image shows.

`RUN/predictions.csv` has one line per example, `RUN/classes.csv` one per class,
`RUN/reliability.csv` one per bin of probabilities, and `RUN/mistakes/` thumbnails of the examples
with the largest loss, named by their index.
"""

import csv
import io
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.files import write_atomically
from trainer.classification.files import THUMBNAILS, thumbnails
from trainer.multilabel.metrics import ClassMetrics, reliability
from trainer.tasks.task import UNWANTED, Array, HeldOut, Predictions

PREDICTIONS, BY_CLASS, RELIABILITY = "predictions.csv", "classes.csv", "reliability.csv"
MISTAKES: Final = "mistakes"
SEPARATOR: Final = "|"
"""Text between the names of two classes."""


def write_predictions(
    folder: Path, predictions: Predictions, said: Array, found: ClassMetrics, held_out: HeldOut
) -> dict[str, Any]:
    """Write the files, each complete or not at all.

    Args:
        folder: Folder of the run.
        predictions: Columns of `Multilabel.evaluated` for the whole split.
        said: Whether an image is said to have a class, bool [n, classes].
        found: Metrics of the classes.
        held_out: Access to the examples.

    Returns:
        The numbers of examples and images, and `problem` if an image could not be read.

    Raises:
        OSError: The folder cannot be written to.
    """
    (folder / PREDICTIONS).unlink(missing_ok=True)
    names, there = np.array(held_out.class_names, object), predictions["target"] > 0
    worst = predictions.index[np.argsort(-predictions["loss"], kind="stable")[:THUMBNAILS]]
    shutil.rmtree(folder / MISTAKES, ignore_errors=True)
    images, problem = dict[str, bytes](), UNWANTED if not held_out.shown else None
    if held_out.shown:
        images, problem = thumbnails([int(index) for index in worst], held_out.image)
        (folder / MISTAKES).mkdir()
    for name, data in images.items():
        (folder / MISTAKES / name).write_bytes(data)
    counts = (part.astype(np.int64) for part in (found.images, found.said, found.right))
    by_class = zip(names, *counts, *map(_texts, (found.ap, found.auc, found.f1)), strict=True)
    _write(folder / BY_CLASS, ("class", "images", "said", "right", "ap", "auc", "f1"), by_class)
    bins = reliability(predictions["probabilities"], there)
    _write(folder / RELIABILITY, ("pairs", "there", "probability"), bins)
    rows = zip(predictions.index, predictions["loss"], there, said, strict=True)
    _write(
        folder / PREDICTIONS,
        ("index", "loss", "classes", "said"),
        (
            (index, loss, SEPARATOR.join(names[true]), SEPARATOR.join(names[mine]))
            for index, loss, true, mine in rows
        ),
    )
    facts = {"examples": len(predictions.index), "images": len(images)}
    return facts | ({"problem": problem} if problem else {})


def _texts(values: Array) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.6f}" for value in values]


def _write(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([*map(str, row)] for row in rows)
    write_atomically(path, text.getvalue())
