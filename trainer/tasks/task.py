"""The interface between the training loop and what is trained."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.program import load
from trainer.config import TrainConfig
from trainer.data.data_set import DataSet
from trainer.data.manifest import Normalization
from trainer.leaves import LEAVES, TASKS
from trainer.task_descriptions import TaskDescription

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
    """Mean loss without label smoothing."""
    examples: int
    """Examples counted."""

    @property
    def score(self) -> float:
        """The metric that decides which checkpoint is the best."""
        return next(iter(self.metrics.values()))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for checkpoints and exports, which `from_json` reads."""
        return {**self.metrics, "loss": self.loss, "examples": self.examples}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_json` returns."""
        metrics = {key: data[key] for key in data if key not in ("loss", "examples")}
        return cls(metrics, data["loss"], data["examples"])


@dataclass(frozen=True)
class Predictions:
    """Arrays of equal length with one entry per example, in the order of the split."""

    index: Array
    """Number of the example in its split, or in a rank's share of it; int64."""
    columns: Mapping[str, Array]
    """What the task states of each example, by name."""

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


@dataclass(frozen=True)
class Serving:
    """What an exported model needs besides its weights."""

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


def training_task(task: "Task", config: TrainConfig, data_set: DataSet) -> "Task":
    """Return a task as the leaves change it for the training of a run."""
    for leaf in LEAVES:
        if leaf.training_task:
            task = load(leaf.training_task)(task, config, data_set)
    return task


class Task(ABC):
    """What is trained: what records hold, the loss, the metrics, and the files about its results.

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
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the loss of each example, float32 [b], and its training metric, float32 [b], 0 to
        1.

        Args:
            logits: Output of the network, float32.
            target: Targets of the batch.
            smoothing: Fraction of the target that is spread evenly over all classes.
        """

    @abstractmethod
    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return what an evaluation counts of each example, float32 [b, n], and the columns of
        `Predictions`, each [b, ...].

        Args:
            logits: Output of the network, float32.
            target: Targets of the batch.
        """

    @abstractmethod
    def evaluation(self, counted: Array) -> Evaluation:
        """Return the result, given what `evaluated` counts of all examples, float64 [examples, n].
        It may not depend on how they are divided over ranks; `sums` does not.
        """

    @staticmethod
    def sums(counted: Array) -> list[float]:
        """Return the sums over axis 0, each rounded once, whatever the order of the rows."""
        return [fsum(column) for column in counted.T.tolist()]

    @staticmethod
    def mean_of_known(values: Array) -> float:
        """Return the mean over the classes for which a metric is defined; 0 if there are none."""
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else 0.0

    @abstractmethod
    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """Write what the report shows about the held-out examples, complete or not at all.

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
