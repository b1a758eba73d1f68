"""The loop of the trainer for a network that is given, in place of that of a configuration."""

from collections.abc import Callable
from typing import Any

import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.distributed.communicator import Communicator
from trainer.tasks.classification.task import Classification
from trainer.training.loop import Loop
from trainer.updates.strategy import Strategy


class GivenNetwork(Strategy):
    """Data parallel, with a network that is given."""

    def __init__(self, model: keras.Model, config: TrainConfig, world: Communicator) -> None:
        self._given = model
        super().__init__(config, 0, world, 0)

    def network(self, classes: int) -> keras.Model:
        """See `Strategy.network`."""
        del classes
        return self._given


def make_loop(
    strategy: Strategy,
    config: TrainConfig,
    world: Communicator,
    normalization: Normalization,
    next_batch: Callable[[], dict[str, Any]],
) -> Loop:
    """Return the loop that trains a classifier by a strategy."""
    task = Classification(int(strategy.model.output_shape[-1]))
    return Loop(task, strategy, world, normalization, config, next_batch)
