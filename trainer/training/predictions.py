"""What the final weights say of each held-out example, and the mistakes they are surest of.

`RUN/predictions.csv` has a line for every example that counted; `RUN/mistakes/` holds thumbnails of
a few, named by their index, so that the report can be made again where the data are not.
"""

import csv
import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from common.errors import UserError
from trainer.data.encoded_image import DECODE_ERRORS, shrink
from trainer.distributed.horovod import Communicator

FILE_NAME, MISTAKES = "predictions.csv", "mistakes"
COLUMNS = ("index", "label", "predicted", "probability", "probability_of_label")
NAMES = ("label_name", "predicted_name")
THUMBNAILS = 24
"""Most mistakes whose images are kept."""
THUMBNAIL_SIZE = 160
"""Longest side of a thumbnail, in pixels; smaller images keep their size."""
LOSSLESS_SIZE = 64
"""Images up to this size are kept as they are; of larger ones, JPEG is small enough for a page."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Predictions:
    """One entry an example, in the order of the split; arrays of equal length."""

    index: Array
    """Number of the example in its split, or in a rank's share of it; int64."""
    label: Array
    """The true class; int32."""
    predicted: Array
    """The most probable class; int32."""
    probability: Array
    """Of the predicted class; float32."""
    probability_of_label: Array
    """Of the true class; float32."""

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Self:
        """Build from columns in the order of the fields."""
        types = (np.int64, np.int32, np.int32, np.float32, np.float32)
        return cls(*(np.asarray(c, dtype) for c, dtype in zip(columns, types, strict=True)))

    def columns(self) -> list[Array]:
        return [getattr(self, field.name) for field in fields(self)]

    def mistakes(self) -> list[int]:
        """Rows whose class is wrong, the most confident first."""
        wrong = np.flatnonzero(self.label != self.predicted)
        # A probability that is not a number sorts last.
        return [int(row) for row in wrong[np.argsort(-self.probability[wrong], kind="stable")]]


def gather(mine: Predictions, begin: int, world: Communicator) -> Predictions:
    """Join the predictions of all ranks; every rank must call it.

    Args:
        mine: of this rank's share.
        begin: first example of that share in the split.
        world: whose ranks hold consecutive shares, in their order.
    """
    index, *others = mine.columns()
    parts = world.gather([column.tolist() for column in (index + begin, *others)])
    return Predictions.of([list(chain(*columns)) for columns in zip(*parts, strict=True)])


def write_predictions(
    folder: Path,
    predictions: Predictions,
    classes: Sequence[str],
    read_image: Callable[[int], bytes],
) -> dict[str, Any]:
    """Write predictions.csv, complete or not at all, and the thumbnails of mistakes.

    Args:
        folder: of the run.
        predictions: of the whole split.
        classes: name of each class.
        read_image: the encoded image of an example of the split.

    Returns:
        How many examples, mistakes and images; `problem`, if an image could not be read.

    Raises:
        OSError: the folder cannot be written to.
    """
    (folder / FILE_NAME).unlink(missing_ok=True)
    wrong = predictions.mistakes()
    chosen = [int(predictions.index[row]) for row in wrong[:THUMBNAILS]]
    images, problem = _thumbnails(chosen, read_image)
    shutil.rmtree(folder / MISTAKES, ignore_errors=True)
    (folder / MISTAKES).mkdir()
    for name, data in images.items():
        (folder / MISTAKES / name).write_bytes(data)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *NAMES))
    for row in zip(*predictions.columns(), strict=True):
        # NumPy's text of a float32 is the shortest that reads back as the same.
        writer.writerow([*map(str, row), classes[row[1]], classes[row[2]]])
    scratch = folder / f".{FILE_NAME}.partial"
    scratch.write_text(text.getvalue(), encoding="utf-8")
    scratch.replace(folder / FILE_NAME)
    facts = {"examples": len(predictions.index), "mistakes": len(wrong), "images": len(images)}
    return facts | ({"problem": problem} if problem else {})


def _thumbnails(
    examples: Sequence[int], read_image: Callable[[int], bytes]
) -> tuple[dict[str, bytes], str | None]:
    """Small images by file name, and what was wrong with the first that could not be made."""
    images, problem = {}, None
    for index in examples:
        try:
            suffix, data = thumbnail(read_image(index))
            images[f"{index}.{suffix}"] = data
        except (UserError, *DECODE_ERRORS) as error:
            problem = problem or f"held-out example {index}: {error}"
    return images, problem


def thumbnail(encoded: bytes) -> tuple[str, bytes]:
    """Make an image fit for a page; its file's suffix and bytes."""
    _, image = shrink(encoded, THUMBNAIL_SIZE)
    lossless = max(image.size) <= LOSSLESS_SIZE
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if lossless else "JPEG", quality=85)
    return ("png" if lossless else "jpg"), buffer.getvalue()
