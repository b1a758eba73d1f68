"""The loop of the trainer for a network that is given, in place of that of a configuration."""

from collections.abc import Callable
from typing import Any

import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.distributed.communicator import Communicator
from trainer.leaf import Exchanges
from trainer.tasks.classification.task import Classification
from trainer.training.loop import Loop
from trainer.updates.division import Division
from trainer.updates.loss_scale import LossScale
from trainer.updates.step_rule import StepContext, Summed


class GivenNetwork(Division):
    """A network that is whole on every rank."""

    def __init__(self, model: keras.Model, config: TrainConfig, communicator: Communicator) -> None:
        self._config, self._world, self.model = config, communicator, model


def summed(model: keras.Model, config: TrainConfig, world: Communicator) -> Summed:
    """Return the rule that sums the gradients of every step."""
    division = GivenNetwork(model, config, world)
    return Summed(StepContext(config, world, division, LossScale(config), Exchanges()))


def make_loop(
    model: keras.Model,
    rule: Summed,
    config: TrainConfig,
    world: Communicator,
    normalization: Normalization,
    next_batch: Callable[[], dict[str, Any]],
) -> Loop:
    """Return the loop that trains a classifier by a rule."""
    task, division = Classification(int(model.output_shape[-1])), GivenNetwork(model, config, world)
    scale = LossScale(config)
    return Loop(task, division, rule, scale, world, normalization, config, next_batch)
