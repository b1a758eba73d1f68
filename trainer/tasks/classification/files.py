"""The files about held-out examples that a report on a classification shows.

`RUN/predictions.csv` has one line per example that counted, and `RUN/classes.csv` one per class;
`RUN/mistakes/` holds thumbnails of a few mistakes, named by their index, so that the report can be
written again without the data set.
"""

import io
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.errors import UserError
from common.files import write_table
from trainer.data.pixels.encoded_image import shrink
from trainer.data.pixels.treatment import RejectedError
from trainer.tasks.classification.metrics import areas, by_class
from trainer.tasks.task import UNWANTED, Array, Predictions

FILE_NAME, BY_CLASS, MISTAKES = "predictions.csv", "classes.csv", "mistakes"
COLUMNS: Final = ("label", "predicted", "probability", "probability_of_label")
"""Columns of the predictions: the true class and the most probable one, int32, and the
probabilities of both, float32."""
NAMES = ("label_name", "predicted_name")
GROUP = "group"
"""Column of predictions.csv if the images of the data set come in groups, such as patients."""
PROBABILITIES = "probabilities"
"""Column of the predictions with the probabilities of all classes, float32 [n, classes]."""
THUMBNAILS = 24
"""Largest number of mistakes whose images are kept."""
THUMBNAIL_SIZE = 160
"""Longest side of a thumbnail, in pixels; smaller images keep their size."""
LOSSLESS_SIZE = 64
"""Longest side of images stored losslessly, in pixels; larger ones are stored as JPEG, which keeps
the page small."""


def mistakes(predictions: Predictions) -> list[int]:
    """Return the rows whose predicted class is wrong, the most confident first."""
    wrong = np.flatnonzero(predictions["label"] != predictions["predicted"])
    # A probability that is not a number sorts last.
    order = np.argsort(-predictions["probability"][wrong], kind="stable")
    return [int(row) for row in wrong[order]]


def write_predictions(
    folder: Path,
    predictions: Predictions,
    classes: Sequence[str],
    read_image: Callable[[int], bytes] | None,
    groups: Array | None = None,
) -> dict[str, Any]:
    """Write predictions.csv, complete or not at all, classes.csv, and the thumbnails of mistakes.

    Args:
        folder: Folder of the run.
        predictions: Predictions for the whole split.
        classes: Name of each class.
        read_image: Returns the encoded image of an example of the split; None to keep no images.
        groups: Group of each example of the split, int64; None if there are none.

    Returns:
        The numbers of examples, mistakes and images, and `problem` if an image could not be read.

    Raises:
        OSError: The folder cannot be written to.
    """
    (folder / FILE_NAME).unlink(missing_ok=True)
    wrong = mistakes(predictions)
    thumbnails = write_thumbnails(folder, predictions.index[wrong[:THUMBNAILS]], read_image)
    _write_classes(folder / BY_CLASS, predictions, classes)
    columns = (predictions.index, *(predictions[name] for name in COLUMNS))
    # NumPy prints a float32 as the shortest text that reads back as the same value.
    rows = (
        [
            *map(str, row),
            *(classes[label] for label in row[1:3]),
            *(() if groups is None else (str(groups[row[0]]),)),
        ]
        for row in zip(*columns, strict=True)
    )
    heads = ("index", *COLUMNS, *NAMES, *([GROUP] * (groups is not None)))
    write_table(folder / FILE_NAME, heads, rows)
    return {"examples": len(predictions.index), "mistakes": len(wrong), **thumbnails}


def _write_classes(path: Path, predictions: Predictions, classes: Sequence[str]) -> None:
    label, predicted = predictions["label"], predictions["predicted"]
    counts = by_class(label, predicted, len(classes))
    auc = np.full(len(classes), np.nan)
    if PROBABILITIES in predictions.columns:
        scores = predictions[PROBABILITIES].T
        auc = np.array([areas(scores[n], label == n)[1] for n in range(len(classes))])
    whole = (part.astype(int) for part in (counts.true, counts.predicted, counts.right))
    parts = (map(_text, column) for column in (counts.recall, counts.precision, auc))
    heads = ("class", "images", "predicted", "right", "recall", "precision", "auc")
    write_table(path, heads, zip(classes, *whole, *parts, strict=True))


def _text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6f}"


def write_thumbnails(
    folder: Path, examples: Array, read_image: Callable[[int], bytes] | None
) -> dict[str, Any]:
    """Write thumbnails of examples, in place of former ones.

    Args:
        folder: Folder of the run.
        examples: Numbers of the examples in the split, int64 [n].
        read_image: See `write_predictions`.

    Returns:
        The number of `images`, and as `problem` the first reason why one is missing.

    Raises:
        OSError: The folder cannot be written to.
    """
    shutil.rmtree(folder / MISTAKES, ignore_errors=True)
    if read_image is None:
        return {"images": 0, "problem": UNWANTED}
    (folder / MISTAKES).mkdir()
    facts: dict[str, Any] = {"images": 0}
    for index in examples.tolist():
        try:
            suffix, data = thumbnail(read_image(index))
        except (UserError, RejectedError, OSError) as error:
            facts.setdefault("problem", f"held-out example {index}: {error}")
            continue
        (folder / MISTAKES / f"{index}.{suffix}").write_bytes(data)
        facts["images"] += 1
    return facts


def thumbnail(encoded: bytes) -> tuple[str, bytes]:
    """Return the file suffix and the bytes of an image's thumbnail."""
    _, image = shrink(encoded, THUMBNAIL_SIZE)
    lossless = max(image.size) <= LOSSLESS_SIZE
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if lossless else "JPEG", quality=85)
    return ("png" if lossless else "jpg"), buffer.getvalue()
