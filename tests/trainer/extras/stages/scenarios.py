"""Functions for the ranks of tests whose layers are divided over several devices."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from common.errors import ConfigError
from tests.trainer.support.scenarios import NORMALIZATION, make_loop, start, values
from trainer.checkpoints.snapshot import stored_name
from trainer.config import TrainConfig
from trainer.distributed.communicator import Alone
from trainer.tasks.task import make_task
from trainer.updates.gradients import MicroBatchGradients
from trainer.updates.strategy import make_strategy

CLASSES = 5


def gradients(configs: Sequence[TrainConfig], rewriting: bool = True) -> list[dict[str, Any]]:
    """Gradients of networks that start equal, and where everything is computed.

    Args:
        configs: configurations of the networks; the devices are those of the first.
        rewriting: whether TensorFlow rewrites graphs.
    """
    start(configs[0])
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not rewriting})
    return [_gradients(config) for config in configs]


def _gradients(config: TrainConfig) -> dict[str, Any]:
    strategy, batch = make_strategy(config, CLASSES, Alone(), 0), _batch(config)
    model, task = strategy.model, make_task(config, CLASSES)
    local = partial(
        strategy.gradients,
        MicroBatchGradients(task, model, NORMALIZATION, config, config.batch_size, strategy.tape),
    )
    given = (batch, tf.constant(1.0), tf.constant(7, tf.int64))
    function = tf.function(local, autograph=False).get_concrete_function(*given)
    before = values(model.variables)
    result, sums = function(*given)
    outputs = function.graph.outputs[: len(result)]
    return {
        "names": [stored_name(variable) for variable in model.variables],
        "start": before,
        "end": values(model.variables),
        "gradients": [np.asarray(gradient) for gradient in result],
        "sums": [float(value) for value in sums],
        "variables": _devices(model.variables),
        "trained": _devices(model.trainable_variables),
        # A function ends with copies of its results.
        "gradient_devices": _devices([output.op.inputs[0] for output in outputs]),
        "operations": [
            (node.name, node.op, _device(node.device), list(node.input))
            for node in function.graph.as_graph_def().node
        ],
    }


def take_steps(config: TrainConfig, steps: int) -> dict[str, Any]:
    """Train a network some steps; the state at the end, and where it lies."""
    world = start(config)
    strategy = make_strategy(config, CLASSES, world, steps)
    batch, model = _batch(config, world.rank), strategy.model
    loop, rule = make_loop(config, strategy, world, lambda: batch)
    report = loop.run([0.05] * steps, lambda _: None)
    loop.close()
    state = {name: variable for name, variable in rule.state.items() if variable.shape.rank}
    return {
        "loss": report.loss,
        "state": values([*model.variables, *state.values()]),
        "variables": _devices(model.trainable_variables),
        "slots": _devices(state.values()),
    }


def refusal(config: TrainConfig) -> list[str]:
    """Why a network cannot be divided."""
    start(config)
    try:
        make_strategy(config, CLASSES, Alone(), 0)
    except ConfigError as error:
        return list(error.problems)
    return []


def placement(config: TrainConfig) -> list[tuple[str, int]]:
    """Each variable of a divided network, with the number of its stage."""
    start(config)
    variables = make_strategy(config, CLASSES, Alone(), 0).model.variables
    stages = [int(device.partition(":")[2]) for device in _devices(variables)]
    return list(zip(map(stored_name, variables), stages, strict=True))


def _batch(config: TrainConfig, rank: int = 0) -> dict[str, tf.Tensor]:
    noise, count, size = np.random.default_rng(rank), config.batch_size, config.model.image_size
    shape, dtype = (
        ([count, size, size], tf.uint8) if config.task == "segmentation" else ([count], tf.int32)
    )
    return {
        "image": tf.constant(noise.integers(0, 256, [count, size, size, 3]), tf.uint8),
        "target": tf.constant(noise.integers(0, CLASSES, shape), dtype),
        "weight": tf.constant(noise.random(count), tf.float32),
        "flip": tf.constant(noise.random(count) < 0.5),
        **({"patch": _patches(noise, count, size)} if config.data.mixup else {}),
    }


def _patches(noise: np.random.Generator, count: int, size: int) -> tf.Tensor:
    whole = np.tile([0.0, 0.0, size, size], [count, 1])
    return tf.constant(np.concatenate([whole, noise.random([count, 1])], 1), tf.float32)


def _devices(holders: Any) -> list[str]:
    return [_device(holder.device) for holder in holders]


def _device(name: str) -> str:
    return name.rpartition("device:")[2]
