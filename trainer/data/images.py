"""From an encoded image to a uint8 input, and from a uint8 batch to the network's input."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from trainer.data.augmentations.keys import key
from trainer.data.augmentations.table import augmented
from trainer.data.augmentations.view import View
from trainer.data.manifest import Normalization
from trainer.data.pixels import encoded_image, graph
from trainer.data.source import Source

ASPECT_RANGE = (3 / 4, 4 / 3)
"""Width over height of a random crop (Szegedy et al. 2014)."""

ENCODINGS = ("JPEG", "PNG")
"""Formats that can be decoded, in the order of a manifest."""

CropChoice = Callable[[tf.Tensor], tf.Tensor]
"""Chooses the part of an image to use: from its [height, width] to [y, x, height, width]."""


def training_image(encoded: tf.Tensor, source: Source, position: tf.Tensor) -> tf.Tensor:
    """Decode and augment an image, depending only on its position; uint8 [size, size, 3]."""
    return training_view(encoded, source, position).image


def training_view(encoded: tf.Tensor, source: Source, position: tf.Tensor) -> View:
    """Decode and augment an image as `training_image` does.

    Returns:
        The image, and how its pixels moved after `training_window` and `shifted`.
    """
    window = training_window(source, position)
    encoded = as_used(encoded, source)
    image = window_image(encoded, source.image_size, window, source.split.encodings)
    return augmented(shifted(image, source, position), source, position)


def training_window(source: Source, position: tf.Tensor) -> CropChoice:
    """Return the function that chooses the crop of the image at a position."""
    if source.config.augment == "random-resized-crop":
        return lambda shape: _random_crop(shape, source, position)
    return whole


def shifted(image: tf.Tensor, source: Source, position: tf.Tensor, fill: int = 0) -> tf.Tensor:
    """Move an input as the augmentation of its position says, if it does.

    Args:
        image: uint8 [size, size, channels].
        source: Split that the image is from.
        position: Position of the image.
        fill: Value of the pixels that come into view.
    """
    reach = source.config.shift_pixels
    if source.config.augment != "shift" or not reach:
        return image
    padded = tf.pad(image, [[reach, reach], [reach, reach], [0, 0]], constant_values=fill)
    offset = tf.random.stateless_uniform(
        [2], key(source.seed, "shift", position), 0, 2 * reach + 1, tf.int32
    )
    return tf.ensure_shape(
        tf.slice(padded, [offset[0], offset[1], 0], image.shape.as_list()), image.shape
    )


def evaluation_image(encoded: tf.Tensor, source: Source) -> tf.Tensor:
    """Decode the central square of an image; uint8 [size, size, 3]."""
    crop, encodings = source.config.eval_crop, source.split.encodings
    return central_image(as_used(encoded, source), source.image_size, crop, encodings)


def as_used(encoded: tf.Tensor, source: Source) -> tf.Tensor:
    """Return an encoded image upright, opaque and in 8 bits, if some of its split are not."""
    return (
        graph.treated(encoded, lambda data: encoded_image.as_used(data, source.levels))
        if source.split.treated
        else encoded
    )


def central_image(
    encoded: tf.Tensor, size: int, crop: float, encodings: tuple[str, ...] = ENCODINGS
) -> tf.Tensor:
    """Decode the central square of an image.

    Args:
        encoded: Encoded image, a string scalar.
        size: Height and width of the result, in pixels.
        crop: Part of the short side to keep, above 0 and at most 1.
        encodings: Formats that occur; if there are several, the bytes of each image decide.

    Returns:
        uint8 [size, size, 3].
    """
    return window_image(encoded, size, central_window(crop), encodings)


def central_window(crop: float) -> CropChoice:
    """Return the function that chooses the central square with a part of the short side."""

    def central(shape: tf.Tensor) -> tf.Tensor:
        short = tf.cast(tf.reduce_min(shape), tf.float32)
        side = tf.maximum(tf.cast(tf.round(short * crop), tf.int32), 1)
        return tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])

    return central


def size_of(encoded: tf.Tensor, encodings: tuple[str, ...]) -> tf.Tensor:
    """Return [height, width] of an encoded image from its header, int32."""

    def jpeg() -> tf.Tensor:
        return tf.io.extract_jpeg_shape(encoded)[:2]

    def png() -> tf.Tensor:
        # The width and height of the IHDR chunk, which comes first.
        header = tf.strings.substr(encoded, 16, 8)
        return tf.io.decode_raw(header, tf.int32, little_endian=False)[::-1]

    if encodings == ("JPEG",):
        return jpeg()
    if encodings == ("PNG",):
        return png()
    return tf.cond(tf.io.is_jpeg(encoded), jpeg, png)


def require(condition: tf.Tensor, facts: Sequence[str | tf.Tensor]) -> tf.Operation:
    """Return an operation that fails with some facts unless a condition holds.

    `tf.debugging.Assert` would build a branch around it, which costs each image more CPU time than
    the comparison.
    """
    return tf.raw_ops.Assert(condition=condition, data=facts)


def flips(source: Source, position: tf.Tensor) -> tf.Tensor:
    """Return whether to mirror the image at a position, a bool scalar."""
    if not source.config.flip:
        return tf.constant(value=False)
    return tf.random.stateless_uniform([], key(source.seed, "flip", position)) < 0.5


def flip_and_normalize(
    image: tf.Tensor, flip: tf.Tensor, normalization: Normalization
) -> tf.Tensor:
    """Mirror and normalise a batch on the device.

    Args:
        image: uint8 [b, height, width, 3].
        flip: bool [b].
        normalization: Normalization of the training images.

    Returns:
        float32 [b, height, width, 3].
    """
    image = normalize(image, normalization)
    return tf.where(flip[:, None, None, None], tf.reverse(image, [2]), image)


def normalize(image: tf.Tensor, normalization: Normalization) -> tf.Tensor:
    """Normalise a batch, uint8 [b, height, width, 3], to float32 of the same shape."""
    mean, std = tf.constant(normalization.mean), tf.constant(normalization.std)
    return (tf.cast(image, tf.float32) - mean) / std


def whole(shape: tf.Tensor) -> tf.Tensor:
    """Choose a whole image; see `CropChoice`."""
    return tf.stack([0, 0, shape[0], shape[1]])


def _random_crop(shape: tf.Tensor, source: Source, position: tf.Tensor) -> tf.Tensor:
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.concat([shape, [3]], 0),
        tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        key(source.seed, "crop", position),
        min_object_covered=0.0,
        aspect_ratio_range=ASPECT_RANGE,
        area_range=(source.config.min_crop_area, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.stack([begin[0], begin[1], size[0], size[1]])


def window_image(
    encoded: tf.Tensor, size: int, choose: CropChoice, encodings: tuple[str, ...] = ENCODINGS
) -> tf.Tensor:
    """Decode only the window that `choose` selects, and resize it; uint8 [size, size, 3]."""

    def jpeg() -> tf.Tensor:
        # The header has the size, so only the part of the image in the window is decoded.
        shape = tf.io.extract_jpeg_shape(encoded)[:2]
        return tf.image.decode_and_crop_jpeg(encoded, choose(shape), channels=3)

    def png() -> tf.Tensor:
        image = tf.io.decode_png(encoded, channels=3)
        window = choose(tf.shape(image)[:2])
        return tf.slice(image, [window[0], window[1], 0], [window[2], window[3], 3])

    if encodings == ("JPEG",):
        cropped = jpeg()
    elif encodings == ("PNG",):
        cropped = png()
    else:
        cropped = tf.cond(tf.io.is_jpeg(encoded), jpeg, png)
    resized = tf.image.resize(cropped, [size, size], method="bilinear")
    return tf.ensure_shape(tf.cast(tf.round(resized), tf.uint8), [size, size, 3])
