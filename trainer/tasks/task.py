"""The interface between the training loop and a task."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.program import load
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.leaves import TASKS
from trainer.task_descriptions import TaskDescription
from trainer.tasks.by_class import ByClass

Array = np.ndarray[Any, Any]
UNWANTED: Final = "the run was asked to keep no copies (--log.images none)"
"""Why there are no images of held-out examples."""
Signature = Any
"""A concrete function of TensorFlow, from named tensors to named tensors."""


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation."""

    metrics: Mapping[str, float]
    """Metrics of the task by key, 0 to 1, in the order of `TaskDescription.evaluation`."""
    loss: float
    """Mean loss of an example, without label smoothing and weights."""
    examples: int
    """Examples counted."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """The same metrics of a prediction that ignores the images; see `Task.baseline`."""
    by_class: ByClass | None = field(default=None, compare=False)
    """Counts of each class; None if the task has none, or if this was read from a file."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for checkpoints and exports, which `from_json` reads."""
        baseline = {"baseline": dict(self.baseline)} if self.baseline else {}
        return {**self.metrics, "loss": self.loss, "examples": self.examples, **baseline}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_json` returns, also those of versions with fewer metrics."""
        metrics = {key: data[key] for key in data if key not in ("loss", "examples", "baseline")}
        return cls(metrics, data["loss"], data["examples"], data.get("baseline", {}))


@dataclass(frozen=True)
class Predictions:
    """Arrays of equal length with one entry per example, in the order of the split."""

    index: Array
    """Number of the example in its split, or in a rank's share of it; int64."""
    columns: Mapping[str, Array]
    """Values that the task states of each example, by name."""

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]


@dataclass(frozen=True)
class HeldOut:
    """Access to the examples of the validation split."""

    class_names: tuple[str, ...]
    """Names of the classes."""
    image: Callable[[int], bytes]
    """Returns the encoded image of an example; raises DataError if it cannot be read."""
    predict: Callable[[int], tuple[Array, Array, Array]]
    """Returns an example's image as the network sees it, uint8 [size, size, 3], its target, and the
    network's logits for it; raises DataError if it cannot be read."""
    shown: bool = True
    """Whether copies of images may be kept."""
    groups: Array | None = None
    """Group of each example, such as its patient, int64; None if there are none."""


@dataclass(frozen=True)
class Serving:
    """Data that an exported model needs besides its weights."""

    class_names: tuple[str, ...]
    """Names of the model's classes."""
    normalization: Normalization
    image_size: int
    """Height and width of an input, in pixels."""
    eval_crop: float
    """Central part of the short side to use, above 0 and at most 1."""
    top: int
    """Most classes that serving_default returns for an image, if the task returns some of them."""


def make_task(config: TrainConfig, classes: int) -> "Task":
    """Return the task of a configuration, for a data set with a number of classes."""
    task: Task = load(TASKS[config.task].code)(classes, config)
    return task


class Task(ABC):
    """A task: targets of records, the loss, the metrics, and the files about its results.

    The methods that take tensors are called inside graphs and under XLA, so they depend on nothing
    but their arguments. All sums over examples are computed per example first, so that padding can
    be left out exactly.
    """

    description: ClassVar[TaskDescription]
    """Names of the metrics, and what else is known of it without its code."""

    def __init__(self, classes: int, config: TrainConfig | None = None) -> None:
        """Args:
        classes: Number of classes of the data set.
        config: Configuration, of which a task reads its own options; None is their defaults.
        """
        del config
        self.classes = classes

    def mirrored(self, target: tf.Tensor, flip: tf.Tensor) -> tf.Tensor:
        """Return the targets of a batch of which some images are mirrored left to right; the same,
        unless they depend on the side.

        Args:
            target: Targets of the batch.
            flip: bool [b].
        """
        del flip
        return target

    @abstractmethod
    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return, of each example, the loss that the optimizer lowers; its training metric, 0 to 1;
        and the loss as an evaluation counts it, without smoothing and weights; each float32 [b].

        Args:
            logits: Output of the network, float32.
            target: Targets of the batch.
            smoothing: Fraction of the target that is spread evenly over all classes.
        """

    @abstractmethod
    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return the values of each example that an evaluation counts, float32 [b, 2 + n]: its
        loss, 1, and n numbers for `counts`; and the columns of `Predictions`, each [b, ...].

        Args:
            logits: Output of the network, float32.
            target: Targets of the batch.
        """

    def evaluation(self, counted: Array) -> Evaluation:
        """Return the mean loss and all metrics of the task's description, given what `evaluated`
        counts of all examples, float64 [examples, 2 + n].
        """
        loss, examples = self.sums(counted[:, :2])
        counts = self.counts(counted[:, 2:])
        baseline = self.baseline(counts)
        return Evaluation(
            self._measured(counts),
            loss / examples,
            round(examples),
            {} if baseline is None else self._measured(baseline),
            self.by_class(counts),
        )

    def _measured(self, counts: Any) -> dict[str, float]:
        metrics = self.description.metrics(self.classes)
        return {metric.key: float(load(metric.of)(counts)) for metric in metrics}

    @abstractmethod
    def counts(self, counted: Array) -> Any:
        """Return the arguments of the metrics' functions, given the counts of `evaluated` for all
        examples besides loss and 1, float64 [examples, n]. It may not depend on how they are
        divided over ranks; `sums` does not.
        """

    def baseline(self, counts: Any) -> Any:
        """Return the counts of the best prediction that is the same for all images, by which a
        metric shows what a network has learned; None if the task has none.
        """
        del counts

    def by_class(self, counts: Any) -> ByClass | None:
        """Return the counts of each class; None if the task has none."""
        del counts
        return None

    @staticmethod
    def sums(counted: Array) -> list[float]:
        """Return the sums over axis 0, each rounded once, whatever the order of the rows."""
        return [fsum(column) for column in counted.T.tolist()]

    @abstractmethod
    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """Write the report's files about the held-out examples, complete or not at all.

        Args:
            folder: Folder of the run.
            predictions: Predictions for the whole split.
            held_out: Access to the examples.

        Returns:
            Facts for metrics.jsonl: the numbers of examples and images, and `problem` if an image
            could not be read.

        Raises:
            OSError: The folder cannot be written to.
        """

    @abstractmethod
    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """Build the module to save: the weights and the signatures that use them.

        Args:
            model: Network from normalised images to logits, entirely float32.
            serving: Everything else.
        """
