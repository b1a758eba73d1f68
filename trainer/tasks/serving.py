"""Parts of the signatures of exported models of all tasks, in plain TensorFlow."""

from collections.abc import Callable
from typing import Final

import tensorflow as tf
import tf_keras as keras

from trainer.data.images import CropChoice, central_window, normalize, window_image
from trainer.data.pixels.graph import reasons_for_treatment
from trainer.tasks.task import Serving, Signature

REFUSED: Final = "images that must be treated before they are sent"
"""Part of the error of an exported model about images whose pixels it would see in another way than
the evaluation."""


def pixels_signature(
    of_inputs: Callable[..., dict[str, tf.Tensor]], serving: Serving, *more: tf.TensorSpec
) -> Signature:
    """Return the function from pixels, uint8 [b, size, size, 3], cropped already, to outputs.

    Args:
        of_inputs: Function from normalised inputs, float32 [b, size, size, 3], to outputs [b, ...].
        serving: Normalization and size of the inputs.
        more: Further inputs, which `of_inputs` takes as well.
    """
    shape = [serving.image_size, serving.image_size, 3]

    def of_pixels(pixels: tf.Tensor, *others: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.shape(pixels)[0]
        # oneDNN's convolution returns a wrong shape for an empty batch (TensorFlow 2.18), so one
        # image is appended and its result removed.
        filler = tf.zeros([tf.cast(batch == 0, tf.int32), *shape], tf.uint8)
        filled = tf.concat([pixels, filler], 0)
        outputs = of_inputs(normalize(filled, serving.normalization), *others)
        return {name: output[:batch] for name, output in outputs.items()}

    spec = tf.TensorSpec([None, *shape], tf.uint8, name="pixels")
    return tf.function(of_pixels, [spec, *more], autograph=False)


def decoded(images: tf.Tensor, serving: Serving, choose: CropChoice | None = None) -> tf.Tensor:
    """Decode a part of encoded images, string [b], by default the central square, to uint8
    [b, size, size, 3].
    """
    size, part = serving.image_size, choose or central_window(serving.eval_crop)
    # On the CPU, as in the evaluation, because a GPU might round pixels differently.
    with tf.device("CPU:0"):
        return tf.map_fn(
            lambda encoded: window_image(encoded, size, part),
            _checked(images),
            fn_output_signature=tf.TensorSpec([size, size, 3], tf.uint8),
        )


def _checked(images: tf.Tensor) -> tf.Tensor:
    """Check that `trainer.data.pixels.treatment.treat` would keep all images of a batch."""
    reasons = reasons_for_treatment(images)
    refused = tf.where(reasons != "")[:, 0]
    check = tf.debugging.Assert(
        tf.size(refused) == 0,
        [
            f"{REFUSED}, number, positions from 0 and reasons:",
            *(tf.size(refused), refused, tf.gather(reasons, refused)),
        ],
        summarize=10,
    )
    with tf.control_dependencies([check]):
        return tf.identity(images)


def module_of(
    model: keras.Model, serve: Callable[[tf.Tensor], dict[str, tf.Tensor]], pixels: Signature
) -> tuple[tf.Module, dict[str, Signature]]:
    """Return the module to save, with its signatures.

    Args:
        model: Network whose weights are saved.
        serve: Function from encoded images, string [b], to named outputs: serving_default.
        pixels: The function that `pixels_signature` returned.
    """
    of_images = tf.function(
        serve, [tf.TensorSpec([None], tf.string, name="images")], autograph=False
    )
    module = tf.Module()
    # Only the variables: with the model itself, Keras would add its own metadata.
    module.weights = model.variables
    return module, {
        "serving_default": of_images.get_concrete_function(),
        "pixels": pixels.get_concrete_function(),
    }
