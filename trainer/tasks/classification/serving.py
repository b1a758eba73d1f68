"""The signatures of an exported classification model."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.tasks.serving import decoded, module_of, pixels_signature
from trainer.tasks.task import Serving, Signature


def read_answers(outputs: Mapping[str, tf.Tensor]) -> list[list[dict[str, Any]]]:
    """See `Answers.read`: the most probable classes, each with its `probability`."""
    columns = (outputs[key].numpy() for key in ("class_ids", "class_names", "probabilities"))
    return [
        [
            {"class_id": int(number), "class_name": name.decode(), "probability": float(part)}
            for number, name, part in zip(*row, strict=True)
        ]
        for row in zip(*columns, strict=True)
    ]


def serving_module(model: keras.Model, serving: Serving) -> tuple[tf.Module, dict[str, Signature]]:
    """Build the module to save: the weights and the signatures that use them.

    serving_default: images, string [b], each an encoded JPEG or PNG -> class_ids int64 [b, k],
    class_names string [b, k] and probabilities float32 [b, k], the most probable first.

    pixels: pixels, uint8 [b, size, size, 3], cropped already -> probabilities float32 [b, classes].

    Args:
        model: Model from normalised images to logits, entirely float32.
        serving: Class names, input, and number of classes k that serving_default returns.
    """
    count = min(serving.top, len(serving.class_names))

    def of_inputs(inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": tf.nn.softmax(model(inputs, training=False))}

    predict = pixels_signature(of_inputs, serving)

    def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        pixels = decoded(images, serving)
        probabilities, classes = tf.math.top_k(predict(pixels)["probabilities"], count)
        return {
            "class_ids": tf.cast(classes, tf.int64),
            "class_names": tf.gather(tf.constant(serving.class_names), classes),
            "probabilities": probabilities,
        }

    return module_of(model, of_images, predict)
