"""Keys of stateless random numbers, which depend on seed, use and position alone."""

from typing import Final
from zlib import crc32

import tensorflow as tf

_NUMBERED: Final = {"crop": 0, "shift": 1, "flip": 2}
"""Uses whose keys are their number and the seed, as in the first version."""
_NAMED: Final = 3
"""Number that the keys of all other uses have in common."""


def key(seed: int, use: str, position: tf.Tensor) -> tf.Tensor:
    """Return the key of the random numbers of a use, int64 [2].

    No two pairs of seed and use share a key, and a new use changes no numbers of another.

    Args:
        seed: Seed of the run, below 2^31.
        use: Name of the use; names whose checksums are equal above their last 3 bits would share
            keys.
        position: Position in the endless sequence of training examples, an integer scalar.
    """
    first = seed * 4 + _NUMBERED.get(use, _NAMED)
    if use not in _NUMBERED:
        # The checksum's highest 29 bits, above the 33 bits of the seeds.
        first += crc32(use.encode()) >> 3 << 33
    return tf.stack([tf.constant(first, tf.int64), tf.cast(position, tf.int64)])
