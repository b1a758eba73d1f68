"""Semantic segmentation: one class per pixel. Class 0 is the background."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.extras.segmentation.files import write_predictions
from trainer.extras.segmentation.leaf import SEGMENTATION
from trainer.extras.segmentation.mask_files import IGNORED
from trainer.extras.segmentation.metrics import largest_class
from trainer.task_descriptions import TaskDescription
from trainer.tasks.by_class import ByClass
from trainer.tasks.classification.task import cross_entropy
from trainer.tasks.serving import decoded, module_of, pixels_signature
from trainer.tasks.task import Array, HeldOut, Predictions, Serving, Signature, Task


class Segmentation(Task):
    """Predicts the class of each pixel. Logits are [b, size, size, classes], targets are uint8
    [b, size, size] with `IGNORED` for pixels that do not count.
    """

    description: ClassVar[TaskDescription] = SEGMENTATION

    def mirrored(self, target: tf.Tensor, flip: tf.Tensor) -> tf.Tensor:
        """See `Task.mirrored`."""
        return tf.where(flip[:, None, None], tf.reverse(target, [2]), target)

    def training(
        self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """See `Task.training`: the mean cross-entropy of an image's pixels that count, and the
        fraction of them that are right.
        """
        counted = _counted(target)
        pixels = tf.maximum(tf.reduce_sum(counted, [1, 2]), 1.0)
        right = tf.cast(_classes(logits) == tf.cast(target, tf.int32), tf.float32) * counted
        loss = self._loss(logits, target, smoothing)
        plain = self._loss(logits, target) if smoothing else loss
        return loss, tf.reduce_sum(right, [1, 2]) / pixels, plain

    def evaluated(
        self, logits: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """See `Task.evaluated`. Counts by class the pixels of it that are right, that are of it,
        and that are predicted as it. The column `pixels` has these, float32
        [b, 3 classes]; float32 counts up to 2^24 pixels of an image exactly.
        """
        loss, pixels = self._loss(logits, target), self._pixels(logits, target)
        counts = tf.concat([loss[:, None], tf.ones_like(loss)[:, None], pixels], 1)
        return counts, {"pixels": pixels}

    def counts(self, counted: Array) -> ByClass:
        """See `Task.counts`: pixels."""
        right, true, predicted = np.reshape(self.sums(counted), [3, self.classes])
        return ByClass(true, predicted, right)

    def baseline(self, counts: ByClass) -> ByClass:
        """See `Task.baseline`: the largest class, everywhere."""
        return largest_class(counts)

    def by_class(self, counts: ByClass) -> ByClass:
        """See `Task.by_class`: pixels."""
        return counts

    def write_predictions(
        self, folder: Path, predictions: Predictions, held_out: HeldOut
    ) -> dict[str, Any]:
        """See `Task.write_predictions`: predictions.csv, classes.csv and overlays."""
        pixels = np.reshape(predictions["pixels"], [-1, 3, self.classes]).astype(np.float64)
        return write_predictions(folder, predictions.index, pixels, held_out)

    def serving_module(
        self, model: keras.Model, serving: Serving
    ) -> tuple[tf.Module, dict[str, Signature]]:
        """Build the module to save.

        serving_default: images, string [b], each an encoded JPEG or PNG -> masks uint8 [b, size,
        size], the most probable class of each pixel of the central square; class_names string
        [classes]; and shares float32 [b, classes], the part of the pixels that are of a class.

        pixels: pixels, uint8 [b, size, size, 3], cropped already -> probabilities float32 [b, size,
        size, classes].
        """

        def of_inputs(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"probabilities": tf.nn.softmax(model(inputs, training=False))}

        predict = pixels_signature(of_inputs, serving)

        def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
            probabilities = predict(decoded(images, serving))["probabilities"]
            classes = tf.argmax(probabilities, -1, tf.int32)
            shares = tf.reduce_mean(tf.one_hot(classes, self.classes), [1, 2])
            return {
                "masks": tf.cast(classes, tf.uint8),
                "class_names": tf.constant(serving.class_names),
                "shares": shares,
            }

        return module_of(model, of_images, predict)

    def _loss(self, logits: tf.Tensor, target: tf.Tensor, smoothing: float = 0.0) -> tf.Tensor:
        counted = _counted(target)
        # A class that does not exist would make the one-hot target zero, and the loss as well, but
        # not with smoothing.
        label = tf.where(target == IGNORED, 0, tf.cast(target, tf.int32))
        per_pixel = cross_entropy(logits, label, smoothing) * counted
        return tf.reduce_sum(per_pixel, [1, 2]) / tf.maximum(tf.reduce_sum(counted, [1, 2]), 1.0)

    def _pixels(self, logits: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Count an image's pixels by class: right, true and predicted; float32 [b, 3 classes]."""
        counted = _counted(target)[..., None]
        true = tf.one_hot(tf.cast(target, tf.int32), self.classes) * counted
        predicted = tf.one_hot(_classes(logits), self.classes) * counted
        sums = [tf.reduce_sum(part, [1, 2]) for part in (true * predicted, true, predicted)]
        return tf.concat(sums, 1)


def read_answers(outputs: Mapping[str, tf.Tensor]) -> list[list[dict[str, Any]]]:
    """See `Answers.read`: the classes that occur, each with its `share` of the pixels."""
    names = [name.decode() for name in outputs["class_names"].numpy()]
    return [
        [
            {"class_id": int(number), "class_name": names[number], "share": float(row[number])}
            for number in (-row).argsort(kind="stable")
            if row[number] > 0
        ]
        for row in outputs["shares"].numpy()
    ]


def _counted(target: tf.Tensor) -> tf.Tensor:
    return tf.cast(target != IGNORED, tf.float32)


def _classes(logits: tf.Tensor) -> tf.Tensor:
    return tf.argmax(logits, -1, tf.int32)
