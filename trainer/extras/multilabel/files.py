"""The files about held-out examples that a report on several classes per image shows.

`RUN/predictions.csv` has one line per example, `RUN/classes.csv` one per class,
`RUN/reliability.csv` one per bin of probabilities, and `RUN/mistakes/` thumbnails of the examples
with the largest loss, named by their index.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

from common.files import write_table
from trainer.extras.multilabel.metrics import ClassMetrics, reliability
from trainer.tasks.by_class import ByClass
from trainer.tasks.classification.files import THUMBNAILS, write_thumbnails
from trainer.tasks.task import Array, HeldOut, Predictions

PREDICTIONS, BY_CLASS, RELIABILITY = "predictions.csv", "classes.csv", "reliability.csv"
SEPARATOR: Final = "|"
"""Text between the names of two classes."""


def write_predictions(
    folder: Path, predictions: Predictions, said: Array, metrics: ClassMetrics, held_out: HeldOut
) -> dict[str, Any]:
    """Write the files; see `Task.write_predictions`.

    Args:
        folder: Folder of the run.
        predictions: Columns of `Multilabel.evaluated` for the whole split.
        said: Whether an image is said to have a class, bool [n, classes].
        metrics: Metrics of the classes.
        held_out: Access to the examples.
    """
    (folder / PREDICTIONS).unlink(missing_ok=True)
    names, target = np.array(held_out.class_names, object), predictions["target"] > 0
    worst = predictions.index[np.argsort(-predictions["loss"], kind="stable")[:THUMBNAILS]]
    thumbnails = write_thumbnails(folder, worst, held_out.image if held_out.shown else None)
    counts = (part.astype(np.int64) for part in (metrics.images, metrics.said, metrics.right))
    known = ByClass(metrics.images, metrics.said, metrics.right)
    parts = (metrics.ap, metrics.auc, metrics.f1, known.recall, known.precision)
    heads = ("class", "images", "said", "right", "ap", "auc", "f1", "recall", "precision")
    write_table(folder / BY_CLASS, heads, zip(names, *counts, *map(_texts, parts), strict=True))
    bins = reliability(predictions["probabilities"], target)
    write_table(folder / RELIABILITY, ("pairs", "there", "probability"), bins)
    rows = zip(predictions.index, predictions["loss"], target, said, strict=True)
    write_table(
        folder / PREDICTIONS,
        ("index", "loss", "classes", "said"),
        (
            (index, loss, SEPARATOR.join(names[true]), SEPARATOR.join(names[mine]))
            for index, loss, true, mine in rows
        ),
    )
    return {"examples": len(predictions.index), **thumbnails}


def _texts(values: Array) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.6f}" for value in values]
