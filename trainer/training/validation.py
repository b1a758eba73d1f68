"""The evaluations of a run on its validation split: what each gave, and what the final one says of
each image.

`RUN/predictions.csv` has a line for every example that counted; `RUN/mistakes/` holds thumbnails of
a few, named by their index, so that the report can be made again where the data are not.
"""

import csv
import io
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_atomically
from trainer.data.encoded_image import DECODE_ERRORS, shrink
from trainer.data.rank_data import DATA_ERRORS, RankData
from trainer.distributed.communicator import Communicator
from trainer.training.evaluator import Evaluation, Evaluator, Predictions, gather
from trainer.training.metrics import PhaseTimer
from trainer.training.reporter import Reporter
from trainer.training.setup import RunSetup

FILE_NAME, MISTAKES = "predictions.csv", "mistakes"
COLUMNS = ("index", "label", "predicted", "probability", "probability_of_label")
NAMES = ("label_name", "predicted_name")
THUMBNAILS = 24
"""Most mistakes whose images are kept."""
THUMBNAIL_SIZE = 160
"""Longest side of a thumbnail, in pixels; smaller images keep their size."""
LOSSLESS_SIZE = 64
"""Images up to this size are kept as they are; of larger ones, JPEG is small enough for a page."""


class Validation:
    """The evaluations of a run on its validation split. All ranks take part in `evaluate` and
    `write_predictions`.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        rank_data: RankData,
        setup: RunSetup,
        communicator: Communicator,
        reporter: Reporter,
        timer: PhaseTimer,
        alive: Callable[[], None],
    ) -> None:
        """`alive` is called with each batch."""
        self._evaluator, self._rank_data, self._setup = evaluator, rank_data, setup
        self._world, self._reporter = communicator, reporter
        self._timer, self._alive = timer, alive
        self._step = -1
        self.latest: Evaluation | None = None
        self.best: dict[str, float] | None = None
        """Step and top-1 of the best evaluation of the run."""
        self.seconds = 0.0
        """Seconds of the run up to the end of the latest evaluation."""

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Take over what a checkpoint holds."""
        self.best = meta["best"]
        if meta["evaluation"]:
            self.latest, self._step = Evaluation(**meta["evaluation"]), meta["step"]
            self.seconds = self._timer.total

    def to_meta(self, step: int) -> dict[str, Any]:
        """What the checkpoint of a step holds: the evaluation of these very weights, if there was
        one, and the best of the run.
        """
        evaluation = self.latest if self._step == step else None
        return {"evaluation": vars(evaluation) if evaluation else None, "best": self.best}

    def evaluate(self, step: int) -> None:
        """Evaluate, unless these very weights have been, or there is nothing to evaluate on."""
        if not self._rank_data.has_validation or self._step == step:
            return
        with self._timer.phase("evaluation"):
            self.latest = self._run()
        self._step, self.seconds = step, self._timer.total
        if self.best is None or self.latest.top1 >= self.best["top1"]:
            self.best = {"step": step, "top1": self.latest.top1}
        self._reporter.evaluation(step, self.latest)

    def write_predictions(self, step: int) -> None:
        """Write what the final evaluation says of each image."""
        if not self._rank_data.has_validation:
            return
        if self._evaluator.predictions is None:
            # An attempt that was killed before it wrote them has evaluated these very weights.
            self._run()
        predictions, first = self._evaluator.predictions, self._rank_data.validation_share.start
        assert predictions is not None
        predictions = gather(predictions, first, self._world)
        if self._world.rank:
            return
        class_names, folder = self._setup.data_set.class_names, self._setup.folder.path
        try:
            facts = write_predictions(
                folder, predictions, class_names, self._rank_data.validation_image
            )
        except OSError as error:
            print(f"warning: the predictions cannot be written: {error}", file=sys.stderr)
        else:
            self._reporter.predictions(step, facts)

    def _run(self) -> Evaluation:
        try:
            return self._evaluator.run(self._batches())
        except DATA_ERRORS as error:
            self._rank_data.explain_validation(error)
            raise

    def _batches(self) -> Iterator[dict[str, Any]]:
        for batch in self._rank_data.validation():
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
    write_atomically(folder / FILE_NAME, text.getvalue())
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
