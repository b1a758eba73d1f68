"""The bounds of the loss scale."""

import math
from dataclasses import replace

import tensorflow as tf

from trainer.config import ComputeConfig
from trainer.presets import PRESETS
from trainer.updates.loss_scale import GROWTH_STEPS, LossScale


def test_a_scale_that_never_overflows_stays_finite_and_can_fall_again():
    config = replace(PRESETS["digits"], compute=ComputeConfig(precision="mixed_float16"))
    scale = LossScale(config)
    for _ in range(130):
        scale.follow(tf.constant(True), GROWTH_STEPS)
    largest = float(scale.now())
    assert math.isfinite(largest)
    # Its inverse is a normal number of float32.
    assert 1 / largest >= tf.float32.as_numpy_dtype(2.0**-126)
    scale.follow(tf.constant(False))
    assert float(scale.now()) == largest / 2
