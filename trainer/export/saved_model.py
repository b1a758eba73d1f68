"""The SavedModel of an export, whose signatures are plain TensorFlow and need none of our code.

The weights are float32 even if the run was trained in mixed precision, and nothing is compiled by
XLA.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.data.images import central_image, normalize
from trainer.data.manifest import Normalization
from trainer.export.layout import STRANGE

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
Signature = Any
"""A concrete function of TensorFlow, from named tensors to named tensors."""


def save_model(
    model: keras.Model,
    folder: Path,
    class_names: tuple[str, ...],
    normalization: Normalization,
    image_size: int,
    eval_crop: float,
    top: int,
) -> None:
    """Write a SavedModel; all arguments except `folder` are those of `serving_module`."""
    module, signatures = serving_module(
        model, class_names, normalization, image_size, eval_crop, top
    )
    with only_errors("tensorflow", "absl"):
        tf.saved_model.save(module, str(folder), signatures=signatures)


@contextmanager
def only_errors(*names: str) -> Iterator[None]:
    """Limit some loggers to errors, because their other messages are about internals."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def serving_module(
    model: keras.Model,
    class_names: tuple[str, ...],
    normalization: Normalization,
    image_size: int,
    eval_crop: float,
    top: int,
) -> tuple[tf.Module, dict[str, Signature]]:
    """Build the module to save: the weights and the signatures that use them.

    serving_default: images, string [b], each an encoded JPEG or PNG -> class_ids int64 [b, k],
    class_names string [b, k] and probabilities float32 [b, k], the most probable first.

    pixels: pixels, uint8 [b, size, size, 3], cropped already -> probabilities float32 [b, classes].

    Args:
        model: Model from normalised images to logits, entirely float32.
        class_names: Names of the model's outputs.
        normalization: Normalization of the model's inputs.
        image_size: Height and width of an input, in pixels.
        eval_crop: Central part of the short side to use, 0 to 1.
        top: Number of classes k that serving_default returns; at most all of them.
    """
    count = min(top, len(class_names))
    shape = [image_size, image_size, 3]

    def of_pixels(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.shape(pixels)[0]
        # oneDNN's convolution returns a wrong shape for an empty batch (TensorFlow 2.18), so one
        # image is appended and its result removed.
        filler = tf.zeros([tf.cast(batch == 0, tf.int32), *shape], tf.uint8)
        filled = tf.concat([pixels, filler], 0)
        inputs = normalize(filled, normalization)
        return {"probabilities": tf.nn.softmax(model(inputs, training=False))[:batch]}

    predict = tf.function(
        of_pixels, [tf.TensorSpec([None, *shape], tf.uint8, name="pixels")], autograph=False
    )

    def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        # On the CPU, as in the evaluation, because a GPU might round pixels differently.
        with tf.device("CPU:0"):
            pixels = tf.map_fn(
                lambda encoded: central_image(encoded, image_size, eval_crop),
                _checked(images),
                fn_output_signature=tf.TensorSpec(shape, tf.uint8),
            )
        probabilities, classes = tf.math.top_k(predict(pixels)["probabilities"], count)
        return {
            "class_ids": tf.cast(classes, tf.int64),
            "class_names": tf.gather(tf.constant(class_names), classes),
            "probabilities": probabilities,
        }

    serve = tf.function(
        of_images, [tf.TensorSpec([None], tf.string, name="images")], autograph=False
    )
    module = tf.Module()
    # Only the variables: with the model itself, Keras would add its own metadata.
    module.weights = model.variables
    return module, {
        "serving_default": serve.get_concrete_function(),
        "pixels": predict.get_concrete_function(),
    }


def _checked(images: tf.Tensor) -> tf.Tensor:
    """Check that a batch contains only JPEG and PNG; the decoder would accept other formats."""
    start = tf.strings.substr(images, 0, len(_PNG_SIGNATURE))
    png = start == tf.constant(_PNG_SIGNATURE)
    jpeg = tf.strings.substr(images, 0, 3) == tf.constant(b"\xff\xd8\xff")
    strange = tf.where(~(png | jpeg))[:, 0]
    check = tf.debugging.Assert(
        tf.size(strange) == 0,
        [f"images that are {STRANGE}, from 0:", strange],
        summarize=10,
    )
    with tf.control_dependencies([check]):
        return tf.identity(images)
