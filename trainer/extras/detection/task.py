"""Object detection: loss, metrics and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.extras.detection.average_precision import Image, Precision, average_precision
from trainer.extras.detection.files import write_predictions
from trainer.extras.detection.found import MOST, find_objects
from trainer.extras.detection.leaf import DETECTION
from trainer.extras.detection.loss import losses
from trainer.extras.detection.serving import serving_module
from trainer.extras.detection.targets import COLUMNS, IGNORED
from trainer.task_descriptions import TaskDescription
from trainer.tasks.task import Array, HeldOut, Predictions, Serving, Signature, Task

_FOUND = MOST * 6


class Detection(Task):
    """Predicts boxes and classes. Logits are [b, locations, classes + 8], see
    `trainer.extras.detection.network`; targets are float32 [b, 1 + boxes, 7], see
    `trainer.extras.detection.targets`.
    """

    description: ClassVar[TaskDescription] = DETECTION

    def mirrored(self, target: tf.Tensor, flip: tf.Tensor) -> tf.Tensor:
        """See `Task.mirrored`."""
        left, top, right, *others = tf.unstack(target[:, 1:], axis=-1)
        # Rows without a box stay zero.
        present = tf.cast(others[2] > 0, tf.float32)
        rows = tf.stack([present - right, top, present - left, *others], -1)
        other = tf.concat([target[:, :1], rows], 1)
        return tf.where(flip[:, None, None], other, target)

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`: the loss of FCOS, and the mean IoU of the positive locations."""
        del smoothing
        loss, iou = losses(logits, target)
        return loss, iou, loss

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`. Counts predicted and true objects, which are the columns
        `found`, [b, 600], and `target`.
        """
        loss, _ = losses(logits, target)
        objects = tf.reshape(find_objects(logits), [-1, _FOUND])
        true = tf.reshape(target, [-1, int(np.prod(target.shape[1:]))])
        counts = tf.concat([loss[:, None], tf.ones_like(loss)[:, None], objects, true], 1)
        return counts, {"found": objects, "target": true}

    def counts(self, counted: Array) -> Precision:
        """See `Task.counts`."""
        images = as_images(counted[:, :_FOUND], counted[:, _FOUND:])
        return average_precision(images, self.classes)

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`: predictions.csv, classes.csv, curves.csv and overlays."""
        objects, target = (np.asarray(predictions[name], float) for name in ("found", "target"))
        images = as_images(objects, target)
        precision = average_precision(images, self.classes)
        return write_predictions(folder, predictions.index, images, precision, held_out)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """See `trainer.extras.detection.serving.serving_module`."""
        return serving_module(model, serving)


def as_images(objects: Array, target: Array) -> Sequence[Image]:
    """Return the objects that the metric compares, in pixels, from rows that `Detection.evaluated`
    returned.
    """
    images = []
    targets = target.reshape(len(objects), -1, COLUMNS)
    for rows, true in zip(objects.reshape(-1, MOST, 6), targets, strict=True):
        pixels = np.tile(true[0, :2], 2)
        true_, mine = true[1:][true[1:, 5] > 0], rows[rows[:, 4] > 0]
        images.append(
            Image(
                true_[:, :4] * pixels, true_[:, 4], true_[:, 5] == IGNORED, true_[:, 6],
                mine[:, :4] * pixels, mine[:, 4], mine[:, 5],
            )
        )  # fmt: skip
    return images
