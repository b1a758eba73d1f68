"""Top-1 and top-5 over a whole split: all ranks take part and every example counts exactly once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.data.data_set import load_data_set
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.data.rank_data import RankData
from trainer.diagnostics.device import set_up_device
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Alone, Communicator
from trainer.errors import DataError
from trainer.model.weights import load_model
from trainer.run_folder import RunFolder, Which
from trainer.training.gradients import cross_entropy

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation."""

    top1: float
    """Fraction of the examples whose true class is the most probable one, 0 to 1."""
    top5: float
    """Fraction of the examples whose true class is among the five most probable, 0 to 1."""
    loss: float
    """Mean cross-entropy without label smoothing."""
    examples: int
    """Examples counted."""


@dataclass(frozen=True)
class Predictions:
    """Arrays of equal length with one entry per example, in the order of the split."""

    index: Array
    """Number of the example in its split, or in a rank's share of it; int64."""
    label: Array
    """The true class; int32."""
    predicted: Array
    """The most probable class; int32."""
    probability: Array
    """Probability of the predicted class; float32."""
    probability_of_label: Array
    """Probability of the true class; float32."""

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Self:
        """Build from columns in the order of the fields."""
        types = (np.int64, np.int32, np.int32, np.float32, np.float32)
        return cls(*(np.asarray(c, dtype) for c, dtype in zip(columns, types, strict=True)))

    def columns(self) -> list[Array]:
        return [getattr(self, field.name) for field in fields(self)]

    def mistakes(self) -> list[int]:
        """Return the rows whose predicted class is wrong, the most confident first."""
        wrong = np.flatnonzero(self.label != self.predicted)
        # A probability that is not a number sorts last.
        return [int(row) for row in wrong[np.argsort(-self.probability[wrong], kind="stable")]]


def gather(mine: Predictions, begin: int, world: Communicator) -> Predictions:
    """Join the predictions of all ranks; every rank must call it.

    Args:
        mine: Predictions for this rank's share.
        begin: First example of that share in the split.
        world: Ranks, which hold consecutive shares in rank order.
    """
    index, *others = mine.columns()
    parts = world.gather([column.tolist() for column in (index + begin, *others)])
    return Predictions.of([list(chain(*columns)) for columns in zip(*parts, strict=True)])


class Evaluator:
    """A compiled forward pass that counts correct predictions."""

    def __init__(
        self,
        model: keras.Model,
        communicator: Communicator,
        normalization: Normalization,
        *,
        xla: bool,
    ) -> None:
        self._model, self._communicator, self._normalization = model, communicator, normalization
        self._graph = tf.function(self._counts, autograph=False, jit_compile=xla)
        self.predictions: Predictions | None = None
        """Predictions for this rank's share in the last evaluation; `index` counts from the first
        example of the share."""

    def run(self, batches: Iterable[dict[str, Any]]) -> Evaluation:
        """Evaluate this rank's batches and add up the counts of all ranks.

        Args:
            batches: Batches of this rank's share. Examples of weight 0 are padding and not counted.
        """
        sums, parts = np.zeros(4), []
        for batch in batches:
            counts, weight, *columns = (value.numpy() for value in self._graph(batch))
            sums += counts
            parts.append((weight, *columns))
        weight, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        counted = np.flatnonzero(weight)
        self.predictions = Predictions.of([counted, *(column[counted] for column in columns)])
        top1, top5, loss, count = self._communicator.sum(sums)
        return Evaluation(top1 / count, top5 / count, loss / count, round(count))

    def _counts(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Return the sums over a batch, then per example: weight, label, predicted class,
        probability of the predicted class, probability of the label.
        """
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        logits = self._model(image, training=False)
        label, weight = batch["label"], batch["weight"]
        top = tf.math.top_k(logits, min(5, logits.shape[-1])).indices
        hits = tf.cast(top == label[:, None], tf.float32)
        per_example = tf.stack(
            [
                hits[:, 0],
                tf.reduce_sum(hits, 1),
                cross_entropy(logits, label),
                tf.ones_like(weight),
            ],
            1,
        )
        # Multiplying by the weight would turn an infinite loss of the padding into NaN.
        counted = tf.where(weight[:, None] > 0, per_example, 0.0)
        sums = tf.reduce_sum(tf.cast(counted, tf.float64), 0)
        probabilities = tf.nn.softmax(logits)
        predicted = top[:, 0]
        of_predicted, of_label = (
            tf.gather(probabilities, classes, batch_dims=1) for classes in (predicted, label)
        )
        return sums, weight, label, predicted, of_predicted, of_label


def evaluate_run(run: str, which: Which, data_dir: str | None = None) -> Evaluation:
    """`python -m trainer evaluate`: evaluate a checkpoint in this process and print the result.

    Raises:
        CheckpointError: The folder is not a run folder, or has no valid checkpoint.
        DataError: The data set is missing, or another version than the run was trained on.
    """
    run_folder, world = RunFolder(Path(run)), Alone()
    record = run_folder.read()
    config = record.config
    if data_dir is not None:
        config = replace(config, data=replace(config.data, dir=data_dir))
    checkpoint = run_folder.find_checkpoint(which)
    data_set = load_data_set(config)
    if data_set.manifest is None:
        raise DataError(
            f"{run_folder.path}: was trained on synthetic data, so there is nothing to evaluate"
        )
    data_set.check_version(record.data_version, run_folder.path)
    set_up_device(config, world)
    rank_data = RankData(config, data_set, world, config.data.decode_threads or cores())
    precision, tensors = config.compute.precision, checkpoint.load()
    model = load_model(config, data_set.classes, precision, tensors, checkpoint.path)
    evaluator = Evaluator(model, world, data_set.normalization, xla=config.compute.xla)
    result = evaluator.run(rank_data.validation)
    print(
        f"{checkpoint.path}: top-1 {result.top1:.2%}, top-5 {result.top5:.2%}, loss"
        f" {result.loss:.4f} on {result.examples:,} held-out images"
    )
    return result
