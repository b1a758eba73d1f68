"""The evaluations of a run: when there was one, what it gave, and what it says of each image.

`RUN/predictions.csv` has a line for every example that counted; `RUN/mistakes/` holds thumbnails of
a few, named by their index, so that the report can be made again where the data are not.
"""

import csv
import io
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.errors import UserError
from trainer.data.encoded_image import UNDECODABLE, shrink
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Communicator
from trainer.training.evaluator import Evaluation, Evaluator, Predictions, gather
from trainer.training.metrics import Chrono
from trainer.training.reporter import Reporter
from trainer.training.setup import Prepared

DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)
"""How TensorFlow fails when data cannot be read."""
FILE_NAME, MISTAKES = "predictions.csv", "mistakes"
COLUMNS = ("index", "label", "predicted", "probability", "probability_of_label")
NAMES = ("label_name", "predicted_name")
THUMBNAILS = 24
"""Most mistakes whose images are kept."""
THUMBNAIL_SIZE = 160
"""Longest side of a thumbnail, in pixels; smaller images keep their size."""
LOSSLESS_SIZE = 64
"""Images up to this size are kept as they are; of larger ones, JPEG is small enough for a page."""


class HeldOut:
    """The held-out images of a run. All ranks take part in each method but `at`."""

    def __init__(
        self,
        evaluator: Evaluator,
        feed: RankData,
        prepared: Prepared,
        communicator: Communicator,
        reporter: Reporter,
        folder: Path,
        alive: Callable[[], None],
    ) -> None:
        """`folder` is the run's; `alive` is called with each batch."""
        self._evaluator, self._feed, self._prepared = evaluator, feed, prepared
        self._folder = folder
        self._world, self._reporter, self._alive = communicator, reporter, alive
        self._step = -1
        self.latest: Evaluation | None = None
        self.best: dict[str, float] | None = None
        """Step and top-1 of the best evaluation of the run."""
        self.seconds = 0.0
        """Seconds of the run up to the end of the latest evaluation."""

    def restore(self, meta: dict[str, Any], seconds: float) -> None:
        """Take over what a checkpoint knows."""
        self.best = meta["best"]
        if meta["evaluation"]:
            self.latest, self._step = Evaluation(**meta["evaluation"]), meta["step"]
            self.seconds = seconds

    def at(self, step: int) -> Evaluation | None:
        """The evaluation of these very weights, if there was one."""
        return self.latest if self._step == step else None

    def evaluate(self, step: int, chrono: Chrono) -> None:
        """Evaluate, unless these very weights have been, or there is nothing to evaluate on."""
        if not self._feed.has_validation or self._step == step:
            return
        with chrono.phase("evaluation"):
            self.latest = self._run()
        self._step, self.seconds = step, chrono.total
        if self.best is None or self.latest.top1 >= self.best["top1"]:
            self.best = {"step": step, "top1": self.latest.top1}
        self._reporter.evaluation(step, self.latest)

    def write_predictions(self, step: int) -> None:
        """Write what the final evaluation says of each image."""
        manifest = self._prepared.manifest
        if manifest is None:
            return
        if self._evaluator.predictions is None:
            # An attempt that was killed before it wrote them has evaluated these very weights.
            self._run()
        mine, begin = self._evaluator.predictions, self._feed.validation_share.start
        assert mine is not None
        everyone = gather(mine, begin, self._world)
        if self._world.rank:
            return
        try:
            facts = write_predictions(
                self._folder, everyone, manifest.classes, self._feed.validation_image
            )
        except OSError as error:
            print(f"warning: the predictions cannot be written: {error}", file=sys.stderr)
        else:
            self._reporter.predictions(step, facts)

    def _run(self) -> Evaluation:
        try:
            return self._evaluator.run(self._batches())
        except DATA_ERRORS as error:
            self._feed.explain_validation(error)
            raise

    def _batches(self) -> Iterator[dict[str, Any]]:
        for batch in self._feed.validation():
            self._alive()
            yield batch


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
        except (UserError, *UNDECODABLE) as error:
            problem = problem or f"held-out example {index}: {error}"
    return images, problem


def thumbnail(encoded: bytes) -> tuple[str, bytes]:
    """Make an image fit for a page; its file's suffix and bytes."""
    _, image = shrink(encoded, THUMBNAIL_SIZE)
    lossless = max(image.size) <= LOSSLESS_SIZE
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if lossless else "JPEG", quality=85)
    return ("png" if lossless else "jpg"), buffer.getvalue()
