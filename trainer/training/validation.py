"""The evaluations of a run on its validation split, and the predictions of the final one.

`RUN/predictions.csv` has one line per example that counted; `RUN/mistakes/` holds thumbnails of a
few mistakes, named by their index, so that the report can be written again without the data set.
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
"""Largest number of mistakes whose images are kept."""
THUMBNAIL_SIZE = 160
"""Longest side of a thumbnail, in pixels; smaller images keep their size."""
LOSSLESS_SIZE = 64
"""Longest side of images stored losslessly, in pixels; larger ones are stored as JPEG, which keeps
the page small."""


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
        """Args:
        evaluator: Evaluates the model.
        rank_data: Data of this rank.
        setup: Set-up of the run.
        communicator: World of ranks.
        reporter: Reports of the run.
        timer: Times the phases.
        alive: Called after each batch.
        """
        self._evaluator, self._rank_data, self._setup = evaluator, rank_data, setup
        self._world, self._reporter = communicator, reporter
        self._timer, self._alive = timer, alive
        self._step = -1
        self.latest: Evaluation | None = None
        self.best: dict[str, float] | None = None
        """Step and top-1 of the best evaluation of the run."""
        self.seconds = 0.0
        """Seconds from the start of the run to the end of the latest evaluation."""

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Restore the latest and the best evaluation from a checkpoint."""
        self.best = meta["best"]
        if meta["evaluation"]:
            self.latest, self._step = Evaluation(**meta["evaluation"]), meta["step"]
            self.seconds = self._timer.total

    def to_meta(self, step: int) -> dict[str, Any]:
        """Return data for the checkpoint of a step: the evaluation of these weights, if there was
        one, and the best evaluation of the run.
        """
        evaluation = self.latest if self._step == step else None
        return {"evaluation": vars(evaluation) if evaluation else None, "best": self.best}

    def evaluate(self, step: int) -> None:
        """Evaluate, unless these weights have been evaluated already or there are no held-out
        images.
        """
        if not self._rank_data.has_validation or self._step == step:
            return
        with self._timer.phase("evaluation"):
            self.latest = self._run()
        self._step, self.seconds = step, self._timer.total
        if self.best is None or self.latest.top1 >= self.best["top1"]:
            self.best = {"step": step, "top1": self.latest.top1}
        self._reporter.evaluation(step, self.latest)

    def write_predictions(self, step: int) -> None:
        """Write the final evaluation's prediction for each image."""
        if not self._rank_data.has_validation:
            return
        if self._evaluator.predictions is None:
            # An attempt that was killed before it wrote them has evaluated the same weights.
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
        for batch in self._rank_data.validation:
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
        folder: Folder of the run.
        predictions: Predictions for the whole split.
        classes: Name of each class.
        read_image: Returns the encoded image of an example of the split.

    Returns:
        The numbers of examples, mistakes and images, and `problem` if an image could not be read.

    Raises:
        OSError: The folder cannot be written to.
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
        # NumPy prints a float32 as the shortest text that reads back as the same value.
        writer.writerow([*map(str, row), classes[row[1]], classes[row[2]]])
    write_atomically(folder / FILE_NAME, text.getvalue())
    facts = {"examples": len(predictions.index), "mistakes": len(wrong), "images": len(images)}
    return facts | ({"problem": problem} if problem else {})


def _thumbnails(
    examples: Sequence[int], read_image: Callable[[int], bytes]
) -> tuple[dict[str, bytes], str | None]:
    """Return thumbnails by file name, and the first error that prevented one, or None."""
    images, problem = {}, None
    for index in examples:
        try:
            suffix, data = thumbnail(read_image(index))
            images[f"{index}.{suffix}"] = data
        except (UserError, *DECODE_ERRORS) as error:
            problem = problem or f"held-out example {index}: {error}"
    return images, problem


def thumbnail(encoded: bytes) -> tuple[str, bytes]:
    """Return the file suffix and the bytes of an image's thumbnail."""
    _, image = shrink(encoded, THUMBNAIL_SIZE)
    lossless = max(image.size) <= LOSSLESS_SIZE
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if lossless else "JPEG", quality=85)
    return ("png" if lossless else "jpg"), buffer.getvalue()
