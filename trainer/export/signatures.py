"""The signatures of an exported model: plain TensorFlow, nothing of ours is needed to use them."""

from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.data.images import central_image, normalize
from trainer.data.manifest import Normalization
from trainer.export.layout import STRANGE

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

Signature = Any
"""A concrete function of TensorFlow's, from named tensors to named tensors."""


def serving_module(
    model: keras.Model,
    class_names: tuple[str, ...],
    normalization: Normalization,
    image_size: int,
    eval_crop: float,
    top: int,
) -> tuple[tf.Module, dict[str, Signature]]:
    """Make what is saved: the weights and the signatures that use them.

    serving_default: images, string [b], each an encoded JPEG or PNG -> class_ids int64 [b, k],
    class_names string [b, k] and probabilities float32 [b, k], the most probable first.

    pixels: pixels, uint8 [b, size, size, 3], cropped already -> probabilities float32 [b, classes].

    Args:
        model: from normalised images to logits, all of it float32.
        class_names: of its outputs.
        normalization: of its inputs.
        image_size: height and width of an input, in pixels.
        eval_crop: central part of the short side that it sees.
        top: classes that serving_default gives, k; at most all of them.
    """
    count = min(top, len(class_names))
    shape = [image_size, image_size, 3]

    def of_pixels(pixels: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.shape(pixels)[0]
        # oneDNN's convolution gives an empty batch a wrong shape (TensorFlow 2.18), so it gets one
        # image, whose result is cut off.
        filler = tf.zeros([tf.cast(batch == 0, tf.int32), *shape], tf.uint8)
        filled = tf.concat([pixels, filler], 0)
        inputs = normalize(filled, normalization)
        return {"probabilities": tf.nn.softmax(model(inputs, training=False))[:batch]}

    predict = tf.function(
        of_pixels, [tf.TensorSpec([None, *shape], tf.uint8, name="pixels")], autograph=False
    )

    def of_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        # Where the evaluation decodes as well, so that a GPU rounds no pixel otherwise.
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
    # The variables alone: with the model itself, Keras would add its own description of it.
    module.weights = model.variables
    return module, {
        "serving_default": serve.get_concrete_function(),
        "pixels": predict.get_concrete_function(),
    }


def _checked(images: tf.Tensor) -> tf.Tensor:
    """Refuse a batch with something else in it, and say where; the decoder would not."""
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
