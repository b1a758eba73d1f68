"""Input without reading: what is left of a step when data cost nothing."""

import tensorflow as tf

from trainer.data.pipeline import Batch


def synthetic_batch(batch_size: int, image_size: int, classes: int, seed: int) -> Batch:
    """One random batch, made on the device and staying there."""
    numbers = tf.random.Generator.from_seed(seed)
    shape = [batch_size, image_size, image_size, 3]
    return {
        "image": tf.cast(numbers.uniform(shape, 0, 256, tf.int32), tf.uint8),
        "label": numbers.uniform([batch_size], 0, classes, tf.int32),
        "weight": tf.ones([batch_size]),
        "flip": tf.zeros([batch_size], tf.bool),
    }
