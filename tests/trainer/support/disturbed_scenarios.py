"""Functions for the ranks of a test whose steps are disturbed: bad gradients, requests to leave, a
late rank. Each function runs in every rank of a real world.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.scenarios import (
    BATCH,
    SYNTHETIC,
    batches_of,
    begin,
    make_loop,
    start,
)
from tests.trainer.support.small_model import small_model
from trainer.config import ComputeConfig, ModelConfig
from trainer.distributed.communicator import Communicator


def break_a_gradient(steps: int) -> dict[str, Any]:
    """Take steps in one call with a network whose last layer's gradient is not a number, though
    every other gradient and the first loss are fine."""

    @tf.custom_gradient
    def poisoned(weight: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.identity(weight), lambda upstream: upstream * float("nan")

    class Poisoned(keras.layers.Layer):  # type: ignore[misc]
        def build(self, _: Any) -> None:
            self.bias = self.add_weight(name="bias", shape=[10], initializer="zeros")

        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            return inputs + poisoned(self.bias)

    def build(_: Communicator, classes: int) -> keras.Model:
        image = keras.Input((8, 8, 3))
        logits = keras.layers.Dense(classes)(keras.layers.Flatten()(image))
        return keras.Model(image, Poisoned()(logits))

    network = ModelConfig(image_size=8, classes=10)
    _, loop, _ = begin(replace(SYNTHETIC, model=network), build)
    report = loop.run([0.01] * steps, lambda _: None)
    return {"steps": report.steps, "bad_step": report.bad_step, "bad_ranks": loop.bad_ranks()}


def leave_in_the_middle(steps: int, at: int, rank: int, what: str) -> dict[str, Any]:
    """Ask for many steps in one call; one rank requests a stop or a pause when it sees a step done;
    then take three more steps.
    """
    world, loop, _ = begin(replace(SYNTHETIC, compute=ComputeConfig(steps_per_loop=steps)))
    seen = []

    def tick(step: int) -> None:
        seen.append(step)
        if step >= at and world.rank == rank:
            (loop.request_stop if what == "stop" else loop.request_pause)()

    report = loop.run([0.01] * steps, tick)
    left_at = int(loop.step)
    after = loop.run([0.01] * 3, lambda _: None)
    return {
        "steps": report.steps,
        "stopped": report.stopped,
        "paused": report.paused,
        "seen": seen,
        "step": left_at,
        "after": (after.steps, after.stopped, after.paused),
    }


def stop_while_tracing() -> dict[str, Any]:
    """Have the signal handler's call come while a function is being traced, and in a plain graph,
    as an export builds one.
    """
    _, loop, _ = begin(SYNTHETIC)

    def traced() -> tf.Tensor:
        loop.request_stop()
        return tf.constant(1)

    graph = tf.function(traced).get_concrete_function().graph
    with tf.Graph().as_default():
        loop.request_stop()
    assignments = [op for op in graph.get_operations() if op.type == "AssignVariableOp"]
    report = loop.run([0.01] * 50, lambda _: None)
    stopped = report.stopped and report.steps == 1
    return {"stopped": stopped, "assignments_in_the_graph": len(assignments)}


def stall_one_rank(seconds: float, late: int) -> list[tuple[int, bool]]:
    """Have one rank's fourth and last batch come late; return the state at each tick of the
    loop."""
    world = start(SYNTHETIC)

    def batches() -> Iterator[dict[str, Any]]:
        for number, batch in enumerate(batches_of(world, [[1.0] * world.size] * 4)):
            if number == 3 and world.rank == late:
                time.sleep(seconds)
            yield batch

    dataset = tf.data.Dataset.from_generator(batches, output_signature=BATCH)
    iterator = iter(dataset)
    model = small_model(SYNTHETIC.model, 10)
    loop, _ = make_loop(SYNTHETIC, model, world, lambda: next(iterator))
    seen: list[tuple[int, bool]] = []
    loop.run([0.05] * 4, lambda step: seen.append((step, loop.arrived)))
    return seen
