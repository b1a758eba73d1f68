"""Gradients of what a network uses several times are added up in one order, whatever else runs."""

from contextlib import nullcontext
from itertools import combinations

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import backprop

from trainer.updates.gradients import adding_in_order

NUMBERS = [np.random.default_rng(seed).normal(size=1000).astype(np.float32) for seed in range(3)]


def gradient(held, context):
    """The gradient of what is used three times, of which others have yet to read some parts."""
    each = []

    @tf.custom_gradient
    def used(x, number):
        def of_x(upstream):
            each.append(upstream * tf.sin(number * x))
            return each[-1], None

        return x * number, of_x

    @tf.function
    def differentiated(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.add_n([tf.reduce_sum(used(x, number)) for number in NUMBERS])
        with context():
            found = tape.gradient(loss, x)
        with tf.control_dependencies([found]):
            return found, [tf.cos(each[number]) for number in held]

    return differentiated(tf.ones([1000]))[0].numpy().tobytes()


def test_a_sum_of_three_gradients_does_not_depend_on_who_else_reads_them():
    readers = [(), *combinations(range(3), 2)]
    assert len({gradient(held, nullcontext) for held in readers}) > 1, "it is no longer needed"
    assert len({gradient(held, adding_in_order) for held in readers}) == 1


def test_other_tapes_and_sums_of_two_are_as_before():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with adding_in_order():
        np.testing.assert_array_equal(tape.gradient(y, x), [2.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        rows = tf.add_n([tf.gather(x, [number]) for number in (0, 1, 1)])
    with adding_in_order():
        found = tape.gradient(rows, x)
    np.testing.assert_array_equal(tf.convert_to_tensor(found), [1.0, 2.0])
    assert backprop._default_vspace.aggregate_fn is backprop._aggregate_grads
