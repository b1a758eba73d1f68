"""An export while the exporters of leaves add to it, and the accuracy of the models that they
add.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from common.text import size
from trainer.data.data_set import load_data_set
from trainer.data.rank_data import RankData
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Alone
from trainer.errors import NonFiniteError
from trainer.export.layout import SAVED_MODEL
from trainer.run_folder import RunRecord
from trainer.tasks.task import Array, Serving, make_task

Probabilities = Callable[[Array], Array]
"""Function from cropped pixels, uint8 [b, size, size, 3], to probabilities, float32 [b, ...]."""


class Validation:
    """The validation split of a run, for models from pixels to probabilities."""

    def __init__(self, run: Path, record: RunRecord) -> None:
        """Open the data set of a run.

        Raises:
            DataError: The data set is missing, or of another version.
            UserError: There is none.
        """
        config = record.config
        data_set = load_data_set(config)
        if data_set.manifest is None:
            raise UserError(
                f"{run}: was trained on synthetic data, so the accuracy of a model of less"
                " precision cannot be checked"
            )
        data_set.check_version(record.data_version, run)
        self._data = RankData(config, data_set, Alone(), config.data.decode_threads or cores())
        self._task = make_task(config, data_set.classes)
        self.metric = self._task.description.evaluation[0]
        """Metric of `score`."""

    def training_pixels(self, batches: int) -> Iterator[Array]:
        """Yield batches of cropped training images, uint8 [b, size, size, 3]."""
        for batch in islice(self._data.calibration, batches):
            yield batch["image"].numpy()

    def score(self, probabilities: Probabilities) -> float:
        """Return the first metric of the task over all images, each of which counts once.

        Raises:
            NonFiniteError: An output is infinite or not a number.
        """
        counts = []
        for batch in self._data.validation():
            # The logarithm of probabilities is the logits, but for a constant.
            predicted = probabilities(batch["image"].numpy())
            if not np.isfinite(predicted).all():
                raise NonFiniteError(
                    "a model of less precision has outputs that are not finite, because weights or"
                    " activations are too large for it; export without this model"
                )
            logits = tf.math.log(tf.constant(predicted))
            per_example, _ = self._task.evaluated(logits, batch["target"])
            counts.append(per_example.numpy()[batch["weight"].numpy() > 0])
        return float(self._task.evaluation(np.concatenate(counts)).metrics[self.metric.key])


@dataclass(frozen=True)
class Exported:
    """An export whose SavedModel is written."""

    folder: Path
    """Folder that becomes the export."""
    run: Path
    record: RunRecord
    model: keras.Model
    """Network with its weights, entirely float32."""
    serving: Serving
    options: Any
    """Options of the command."""

    @cached_property
    def validation(self) -> Validation:
        """Validation split of the run."""
        return Validation(self.run, self.record)

    def check(self, path: Path, probabilities: Probabilities) -> str:
        """Compare a model of less precision with the SavedModel, on the whole validation split.

        Args:
            path: File or folder of the model.
            probabilities: The model.

        Returns:
            Sizes and results of both, in words.

        Raises:
            UserError: Its result is below that of the SavedModel by more than
                `--max-accuracy-loss`, or there is no validation split.
            DataError: The data set is missing, or of another version.
        """
        score, wanted = self.validation.score(probabilities), self._reference
        label = self.validation.metric.label
        words = f"{path.name}: {label} {score:.2%} (float32: {wanted:.2%})"
        # Written so that NaN fails as well.
        if not wanted - score <= self.options.max_accuracy_loss:
            raise UserError(
                f"{words}: the loss is more than {self.options.max_accuracy_loss:.2%}, so nothing"
                " was exported; export without this model, or accept more by --max-accuracy-loss"
            )
        sizes = [size(bytes_in(path_)) for path_ in (path, self.folder / SAVED_MODEL)]
        return f"{words}, {sizes[0]} (float32: {sizes[1]})"

    @cached_property
    def _reference(self) -> float:
        exported = tf.saved_model.load(str(self.folder / SAVED_MODEL))
        return self.validation.score(of_signature(exported.signatures["pixels"]))


def of_signature(signature: Any) -> Probabilities:
    """Return the function of the signature `pixels` of a loaded model, which must be kept alive."""

    def probabilities(pixels: Array) -> Array:
        predicted: Array = signature(pixels=tf.constant(pixels))["probabilities"].numpy()
        return predicted

    return probabilities


def bytes_in(path: Path) -> int:
    """Return the size of a file, or of all files of a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
