"""Scenarios of ranks that average their states, which a rank of a test's world runs."""

from dataclasses import replace
from typing import Any

import tensorflow as tf

from tests.trainer.support.scenarios import begin, given, plain_model, values
from tests.trainer.support.small_model import small_model
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.extras.averaging.leaf import AveragingOptions
from trainer.extras.averaging.strategy import Averaging
from trainer.updates.strategy import Strategy


def take_steps(
    config: TrainConfig, every: int, total: int, steps: int, network: str
) -> dict[str, Any]:
    """Train on the digits `total` steps, in calls of `steps` steps each; the network is "small",
    with batch norm, or "plain". With `every` 0 gradients are summed.

    Returns:
        The state after each call, and how often tensors were exchanged between ranks.
    """
    averaged = {"averaging": AveragingOptions(every or 1, 0.0)}
    config = replace(config, **averaged)  # type: ignore[arg-type]
    counts: list[tf.Variable] = []

    def build(world: Communicator, classes: int) -> Strategy:
        exchanges, exchange = tf.Variable(0, dtype=tf.int64), world.allreduce

        def counted(*args: Any) -> Any:
            with tf.control_dependencies([exchanges.assign_add(1)]):
                return exchange(*args)

        vars(world)["allreduce"] = counted
        counts.append(exchanges)
        model = small_model(config.model, classes) if network == "small" else plain_model()
        return given(model, config, world, Averaging if every else Strategy, total)

    world, loop, rule = begin(config, build)
    model = rule.model
    world.broadcast_variables(model.variables)
    states, losses = [], []
    for _ in range(0, total, steps):
        report = loop.run([0.05] * steps, lambda _: None)
        states.append(values([*model.variables, *rule.state.values()]))
        losses.append((report.loss, report.images))
    return {"states": states, "losses": losses, "exchanges": int(counts[0].numpy())}
