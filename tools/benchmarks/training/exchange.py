"""Cost of an exchange of ResNet50's gradients, and the bytes that it sends.

Our exchange does more than a bare grouped all-reduce: it includes batch norm's moving statistics,
loss, counts and the stop flag, the check for finite numbers, and the assignment of the statistics.
The network's weights are used as gradients: they have the same shapes, and their values do not
matter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import psutil
import tensorflow as tf

from common.annotations import Bounds
from common.errors import UserError
from tools.benchmarks.measure import (
    BenchmarkOptions,
    columns,
    ratio,
    read_samples,
    table,
    take_turns,
)
from tools.benchmarks.processes import in_world, join_world
from tools.benchmarks.training.given_network import GivenNetwork
from trainer.config import ModelConfig, Positive
from trainer.distributed.horovod import Horovod
from trainer.model.build import build_model
from trainer.presets import PRESETS
from trainer.updates.strategy import SUMS, LocalStep, StepPlace

BARE, OURS = "bare grouped all-reduce", "ours, 1 group"
CLASSES = 1000
TOLERANCE = 0.01
"""Fraction by which the bytes sent may differ from the formula: frames and negotiation."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an exchange of ResNet50's gradients, compared with one bare grouped
    all-reduce. The bytes sent are checked against the formula of a ring.
    """

    ranks: Annotated[int, Bounds(at_least=2)] = 2
    """World size."""

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    exchanges: Annotated[int, Positive] = 8
    """Exchanges per turn."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the exchange."""
    return in_world("tools.benchmarks.training.exchange:take_turns_in_world", **options.settings())


def show(data: Mapping[str, Any]) -> str:
    """Format the times of all contenders, and the bytes that they send."""
    samples = read_samples(data["samples"])
    rows = [["", "MB sent by a rank", "ring's formula", f"wall / {BARE}"]]
    for name, (seen, formula) in data["sent"].items():
        elapsed = ratio(samples, name, BARE, "wall_ms").text()
        rows.append([name, f"{seen / 1e6:.2f}", f"{formula / 1e6:.2f}", elapsed])
    return f"{table(samples, 'exchange', [BARE])}\n\n{columns(rows)}"


def take_turns_in_world(rounds: int, exchanges: int) -> dict[str, Any]:
    """Measure the contenders in turns, in the world of this rank.

    Args:
        rounds: Number of turns of each contender.
        exchanges: Exchanges per turn.
    """
    world = join_world()
    assert isinstance(world, Horovod)
    model = build_model(ModelConfig(), CLASSES)
    weights, moving = model.trainable_variables, model.non_trainable_variables
    strategy = GivenNetwork(model, PRESETS["synthetic"], world)

    def gradients() -> list[tf.Tensor]:
        return [variable.read_value() for variable in weights]

    def bare() -> list[tf.Tensor]:
        hvd = world.module
        return list(hvd.grouped_allreduce(gradients(), op=hvd.Sum, name="bare"))

    def ours() -> list[tf.Tensor]:
        # No overflow and no stop request, which would check all gradients.
        sums = [tf.constant(0.0) for _ in SUMS]
        local = LocalStep(gradients(), sums, tf.constant(1.0), [])
        reduced = strategy.reduce(
            local, StepPlace(tf.constant(0, tf.int64), tf.constant(value=False))
        )
        for variable, mean in zip(moving, reduced.moving, strict=True):
            variable.assign(mean)
        return [*reduced.gradients, reduced.norm, reduced.finite]

    def repeated(exchange: Callable[[], list[tf.Tensor]]) -> Callable[[], int]:
        # All results are returned, because TensorFlow prunes operations that are not used.
        graph = tf.function(exchange, autograph=False)
        return lambda: len([graph() for _ in range(exchanges)])

    contenders = {BARE: repeated(bare), OURS: repeated(ours)}
    samples = take_turns(contenders, rounds, world)
    data = _bytes(weights)
    sizes = {BARE: data, OURS: data + _bytes(moving) + 4 * len(SUMS)}
    sent = {name: bytes_sent(world, contenders[name], sizes[name]) for name in contenders}
    world.shutdown()
    return {"samples": samples, "sent": sent}


def bytes_sent(world: Horovod, work: Callable[[], int], size: int) -> tuple[float, float]:
    """Return the bytes that this rank sends for one exchange, and those of a ring: 2 (n - 1) / n
    times the data (Patarasuk and Yuan 2009), with n ranks.

    Raises:
        UserError: They differ by more than one percent.
    """
    world.barrier()
    # Bytes that this process has written, including to sockets: proc_pid_io(5).
    before = psutil.Process().io_counters().write_chars
    exchanges = work()
    seen = (psutil.Process().io_counters().write_chars - before) / exchanges
    formula = 2 * (world.size - 1) / world.size * size
    if abs(seen / formula - 1) > TOLERANCE:
        raise UserError(f"sends {seen:,.0f} bytes per exchange, not {formula:,.0f} as a ring")
    return seen, formula


def _bytes(variables: Sequence[tf.Variable]) -> int:
    return sum(4 * int(np.prod(variable.shape)) for variable in variables)
