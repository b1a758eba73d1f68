"""Building of networks whose layers have neither seeds nor names of their own."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tf_keras as keras


@contextmanager
def reproducible(precision: str, seed: int) -> Iterator[None]:
    """Make everything that is built inside depend on the arguments only, so that equal
    configurations build equal networks on every rank, whatever the process has built before.

    Layers get a dtype policy, initial weights that follow from the seed, and names that count from
    the start again. The policy and the generators of Python and NumPy are restored afterwards.
    TensorFlow's global seed is not, because it cannot be read; training does not use it.

    Args:
        precision: Dtype policy, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.
    """
    policy, python = keras.mixed_precision.global_policy(), random.getstate()
    numpy = np.random.get_state()
    keras.backend.reset_uids()
    keras.utils.set_random_seed(seed)
    keras.mixed_precision.set_global_policy(precision)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(policy)
        random.setstate(python)
        np.random.set_state(numpy)
