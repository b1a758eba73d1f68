"""The contenders of `optimizers`: one network whose weights each optimizer updates in turn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf
import tf_keras as keras

from benchmarks.measure import take_turns
from benchmarks.processes import join_world
from benchmarks.training.given_network import make_loop, summed
from benchmarks.training.optimizers import KINDS, step, update
from trainer.data.manifest import Normalization
from trainer.data.rank_data import synthetic_batch
from trainer.model.resnet import build_resnet
from trainer.presets import PRESETS
from trainer.training.loop import Loop
from trainer.updates.optimizer import Optimizer

CLASSES = 1000
RATE = 1e-6
"""So small that the weights stay what they are; the arithmetic is that of any rate."""
NORMALIZATION = Normalization((127.5,) * 3, (73.9,) * 3)


def measure(rounds: int, batch_size: int, image_size: int, updates: int) -> dict[str, Any]:
    """Measure steps and updates of each optimizer in turns.

    Args:
        rounds: Number of turns of each contender.
        batch_size: Images per step.
        image_size: Height and width of the images, in pixels.
        updates: Updates per turn.
    """
    world = join_world()
    base = PRESETS["synthetic"]
    model = build_resnet(replace(base.model, image_size=image_size), CLASSES)
    contenders: dict[str, Callable[[], int]] = {}
    for kind in KINDS:
        values: dict[str, Any] = {"kind": kind}
        config = replace(base, batch_size=batch_size, optimizer=replace(base.optimizer, **values))
        rule = summed(model, config, world)
        data = tf.data.Dataset.from_tensors(
            synthetic_batch(batch_size, image_size, CLASSES, seed=0)
        ).repeat()
        next_batch = iter(data).__next__
        loop = make_loop(model, rule, config, world, NORMALIZATION, next_batch)
        contenders[step(kind)] = _steps(loop)
        contenders[update(kind)] = _updates(model, rule.optimizer, updates)
    samples = take_turns(contenders, rounds, world)
    world.shutdown()
    return {"samples": samples}


def _steps(loop: Loop) -> Callable[[], int]:
    def take() -> int:
        return loop.run([RATE], lambda _: None).steps

    return take


def _updates(model: keras.Model, optimizer: Optimizer, count: int) -> Callable[[], int]:
    gradients = [tf.random.stateless_normal(v.shape, [0, 1]) for v in model.trainable_variables]

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def apply(gradients: list[tf.Tensor]) -> tf.Tensor:
        optimizer.apply(gradients, tf.constant(RATE))
        return tf.constant(0)

    def take() -> int:
        for _ in range(count):
            apply(gradients).numpy()
        return count

    return take
