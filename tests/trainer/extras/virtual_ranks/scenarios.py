"""Scenarios of virtual ranks, which a rank of a test's world runs."""

from typing import Any

import tensorflow as tf

from tests.trainer.support.scenarios import start, use_small_model
from trainer.config import TrainConfig
from trainer.extras.virtual_ranks.strategy import tree_sum
from trainer.updates.strategy import make_strategy


def sums(config: TrainConfig, arrays: list[list[Any]]) -> list[Any]:
    """The sums over all virtual ranks of tensors that each of them has; the last one is flat."""
    use_small_model()
    world = start(config)
    strategy = make_strategy(config, 10, world, 0)

    def graph(*stacked: tf.Tensor) -> list[tf.Tensor]:
        *gradients, extras = [tree_sum(one) for one in stacked]
        gradients, extras, _ = strategy.exchanged(gradients, extras)
        return [*gradients, extras]

    mine = arrays[world.rank :: world.size]
    stacked = [tf.stack(parts) for parts in zip(*mine, strict=True)]
    found = [total.numpy() for total in tf.function(graph, autograph=False)(*stacked)]
    # A rank that ends closes the connections of the others.
    world.barrier()
    return found
