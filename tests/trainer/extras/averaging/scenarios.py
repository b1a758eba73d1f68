"""Scenarios of ranks that average their states, which a rank of a test's world runs."""

from dataclasses import replace
from typing import Any

import tensorflow as tf

from tests.trainer.support.scenarios import (
    given,
    make_loop,
    plain_model,
    start,
    values,
    weighted_batches,
)
from tests.trainer.support.small_model import small_model
from trainer.config import ComputeConfig, DataConfig, ModelConfig, TrainConfig
from trainer.data.data_set import load_data_set
from trainer.data.rank_data import RankData
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
    world = start(config)
    model = small_model(config.model, 10) if network == "small" else plain_model()
    data_set = load_data_set(config)
    rank_data = RankData(config, data_set, world, 1)
    exchanges = tf.Variable(0, dtype=tf.int64)
    exchange = world.allreduce

    def counted(*args: Any) -> Any:
        with tf.control_dependencies([exchanges.assign_add(1)]):
            return exchange(*args)

    vars(world)["allreduce"] = counted
    normalization = data_set.normalization
    averaged = {"averaging": AveragingOptions(every or 1, 0.0)}
    config = replace(config, **averaged)  # type: ignore[arg-type]
    make = Averaging if every else Strategy
    strategy = given(model, config, world, make, total)
    loop, rule = make_loop(config, strategy, world, rank_data.next_batch, normalization)
    rank_data.open(0)
    world.broadcast_variables(model.variables)
    states, losses = [], []
    for _ in range(0, total, steps):
        report = loop.run([0.05] * steps, lambda _: None)
        states.append(values([*model.variables, *rule.state.values()]))
        losses.append((report.loss, report.images))
    return {"states": states, "losses": losses, "exchanges": int(exchanges.numpy())}


def weighted_steps(
    precision: str, weights: list[list[float]], poison: tuple[int, int], every: int
) -> list[dict[str, Any]]:
    """One call of the loop for each average, with chosen weights of the images.

    Before call `poison[0]`, rank `poison[1]` gets a kernel that is not a number.
    """
    config = TrainConfig(
        batch_size=8,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
        compute=ComputeConfig(precision=precision),  # type: ignore[arg-type]
        averaging=AveragingOptions(every, 0.0),  # type: ignore[call-arg]
    )
    world = start(config)
    batches = weighted_batches(world, weights)
    model = small_model(config.model, 10, precision)
    strategy = given(model, config, world, Averaging, len(weights))
    loop, rule = make_loop(config, strategy, world, lambda: next(batches))
    states = []
    for number in range(len(weights) // every):
        if poison == (number, world.rank):
            kernel = model.get_layer("logits").kernel
            kernel.assign(tf.fill(kernel.shape, float("nan")))
        report = loop.run([0.05] * every, lambda _: None)
        states.append(
            {
                "state": values([*model.variables, *rule.state.values()]),
                "loss_scale": float(loop.state["loss_scale"].numpy()),
                "finite_steps": int(loop.state["finite_steps"].numpy()),
                "skipped": report.skipped_steps,
                "bad_step": report.bad_step,
                "bad_ranks": loop.bad_ranks(),
            }
        )
        if report.bad_step is not None:
            break
    return states
