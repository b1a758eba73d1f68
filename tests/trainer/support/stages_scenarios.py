"""What the ranks of tests do whose layers are divided over several devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.scenarios import NORMALIZATION, start, values
from trainer.checkpoints.snapshot import stored_name
from trainer.config import TrainConfig
from trainer.diagnostics.device import stage_devices
from trainer.divided.stages import build_divided
from trainer.model.build import build_model
from trainer.tasks.table import make_task
from trainer.training.gradients import LocalGradients

CLASSES = 5


def _model(config: TrainConfig) -> keras.Model:
    def build() -> keras.Model:
        return build_model(config.model, CLASSES, config.compute.precision, dense=config.dense)

    stages, size = config.model.stages, config.model.image_size
    return build_divided(build, stage_devices(stages), size) if stages > 1 else build()


def _batch(config: TrainConfig, rank: int = 0) -> dict[str, tf.Tensor]:
    noise, count, size = np.random.default_rng(rank), config.batch_size, config.model.image_size
    target = [count, size, size] if config.dense else [count]
    return {
        "image": tf.constant(noise.integers(0, 256, [count, size, size, 3]), tf.uint8),
        "target": tf.constant(
            noise.integers(0, CLASSES, target), tf.uint8 if config.dense else tf.int32
        ),
        "weight": tf.constant(noise.random(count), tf.float32),
        "flip": tf.constant(noise.random(count) < 0.5),
    }


def _local(config: TrainConfig, model: keras.Model) -> tf.types.experimental.ConcreteFunction:
    task = make_task(config, CLASSES)
    local = LocalGradients(task, model, NORMALIZATION, config, config.batch_size)
    traced = tf.function(local, autograph=False)
    return traced.get_concrete_function(_batch(config), tf.constant(1.0), tf.constant(7, tf.int64))


def _device(name: str) -> str:
    return name.rpartition("device:")[2]


def gradients(configs: Sequence[TrainConfig]) -> list[dict[str, Any]]:
    """Losses, gradients and moving statistics of networks that start equal, and where they lie;
    the devices are those of the first configuration.
    """
    start(configs[0])
    found = []
    for config in configs:
        model = _model(config)
        local = _local(config, model)
        before = values(model.variables)
        result, sums = local(_batch(config), tf.constant(1.0), tf.constant(7, tf.int64))
        found.append(
            {
                "names": [stored_name(variable) for variable in model.variables],
                "start": before,
                "gradients": [np.asarray(gradient) for gradient in result],
                "sums": [float(value) for value in sums],
                "after": values(model.variables),
                "variables": [_device(variable.device) for variable in model.variables],
                "trained": [_device(variable.device) for variable in model.trainable_variables],
                "gradient_devices": [_device(gradient.device) for gradient in result],
                "operations": [
                    (node.name, node.op, _device(node.device), list(node.input))
                    for node in local.graph.as_graph_def().node
                ],
            }
        )
    return found
