"""Gradients are added up in one order, whatever else runs."""

from contextlib import nullcontext
from itertools import combinations

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.eager import context as eager

from trainer.updates.gradients import adding_in_order, pooling_in_order

NUMBERS = [np.random.default_rng(seed).normal(size=1000).astype(np.float32) for seed in range(3)]


def gradient(held, context):
    """The gradient of a value that is used three times, of which others have yet to read some
    parts."""
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


def pooled(context, padding="VALID"):
    """The gradient of a max pooling whose windows overlap."""
    draws = np.random.default_rng(1)
    images = tf.constant(draws.normal(size=(2, 33, 33, 8)), tf.float32)

    @tf.function
    def differentiated(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            largest = tf.nn.max_pool2d(images, 3, 2, padding)
            loss = tf.reduce_sum(largest * draws.normal(size=largest.shape))
        with context():
            return tape.gradient(loss, images)

    return differentiated(images).numpy()


def kernels(context):
    """The operations about max pooling of a graph with a loop, as TensorFlow runs it: those of the
    graph with its loops, and those of its functions.
    """
    images = tf.random.stateless_normal([2, 9, 9, 8], [1, 2])

    @tf.function
    def summed(images):
        def body(number, total):
            with tf.GradientTape() as tape:
                tape.watch(images)
                loss = tf.reduce_sum(tf.nn.max_pool2d(images * total, 3, 2, "VALID"))
            with context():
                return number + 1, total + tf.reduce_sum(tape.gradient(loss, images))

        return tf.while_loop(lambda number, _: number < 2, body, (0, 1.0))[1]

    eager.context().enable_run_metadata()
    try:
        summed(images)
        graphs = eager.context().export_run_metadata().function_graphs
    finally:
        eager.context().disable_run_metadata()
    by_graph = [
        {node.op for node in part.node if "MaxPoolGrad" in node.op}
        for graph in graphs
        for part in graph.partition_graphs
        if any("while" in node.name for node in part.node)
    ]
    return set().union(*by_graph)


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="has one kernel")
def test_the_kernel_of_a_gradient_of_max_pooling_is_not_chosen_in_a_graph_with_loops():
    assert kernels(nullcontext), "the graph is not seen as it runs"
    assert not kernels(pooling_in_order)


@pytest.mark.parametrize("padding", ["VALID", "SAME", [[0, 0], [1, 1], [1, 1], [0, 0]]])
def test_a_gradient_of_max_pooling_in_one_order_is_that_of_tensorflow(padding):
    expected = pooled(nullcontext, padding)
    np.testing.assert_array_equal(pooled(pooling_in_order, padding), expected)
