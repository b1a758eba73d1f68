"""The signatures of an exported detection model."""

from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf
import tf_keras as keras

from trainer.data.images import whole
from trainer.extras.detection.found import OVERLAP, find_objects, scores_of
from trainer.extras.detection.loss import split_outputs
from trainer.tasks.serving import decoded, module_of, pixels_signature
from trainer.tasks.task import Serving, Signature

SCORE: Final = 0.3
"""Lowest score of the objects that serving_default returns; an evaluation counts lower ones too."""
_SCORE = tf.TensorSpec([], tf.float32, name="score_threshold")
_OVERLAP = tf.TensorSpec([], tf.float32, name="iou_threshold")


def serving_module(model: keras.Model, serving: Serving) -> tuple[tf.Module, dict[str, Signature]]:
    """Build the module to save.

    serving_default: images, string [b], each an encoded JPEG or PNG -> boxes float32 [b, 100, 4],
    left, top, right and bottom as fractions of the whole image; scores float32 [b, 100], the
    highest first, and 0 behind the last object; class_ids int64 [b, 100]; class_names string
    [b, 100].

    thresholds: the same with the inputs score_threshold, the lowest score, and iou_threshold, the
    largest intersection over union of two objects of a class; float32 scalars.

    pixels: pixels, uint8 [b, size, size, 3], the whole image, and both thresholds -> boxes, scores
    and class_ids, and probabilities float32 [b, locations, classes], the scores of all locations.
    """

    def of_inputs(inputs: tf.Tensor, score: tf.Tensor, overlap: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = model(inputs, training=False)
        objects = find_objects(logits, score, overlap)
        return {
            "boxes": objects[..., :4],
            "scores": objects[..., 4],
            "class_ids": tf.cast(objects[..., 5], tf.int64),
            "probabilities": scores_of(split_outputs(logits)),
        }

    predict = pixels_signature(of_inputs, serving, _SCORE, _OVERLAP)
    names = tf.constant(serving.class_names)

    def of_images(
        images: tf.Tensor, score: tf.Tensor | float = SCORE, overlap: tf.Tensor | float = OVERLAP
    ) -> dict[str, tf.Tensor]:
        thresholds = map(tf.convert_to_tensor, (score, overlap))
        outputs = predict(decoded(images, serving, whole), *thresholds)
        del outputs["probabilities"]
        return {**outputs, "class_names": tf.gather(names, outputs["class_ids"])}

    module, signatures = module_of(model, of_images, predict)
    images = tf.TensorSpec([None], tf.string, name="images")
    more = tf.function(of_images, [images, _SCORE, _OVERLAP], autograph=False)
    return module, {**signatures, "thresholds": more.get_concrete_function()}


def read_answers(outputs: Mapping[str, tf.Tensor]) -> list[list[dict[str, Any]]]:
    """See `Answers.read`: the objects, each with its `box` and its `score`."""
    columns = (outputs[key].numpy() for key in ("class_ids", "class_names", "boxes", "scores"))
    return [
        [
            {
                "class_id": int(number),
                "class_name": name.decode(),
                "box": [float(side) for side in box],
                "score": float(score),
            }
            for number, name, box, score in zip(*row, strict=True)
            if score > 0
        ]
        for row in zip(*columns, strict=True)
    ]
