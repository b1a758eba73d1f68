"""The contenders of `exchange`: exchanges of ResNet50's gradients, and a bare grouped all-reduce.

Our exchange does more: it includes batch norm's moving statistics, loss, counts and the stop flag,
the check for finite numbers, and the assignment of the statistics. With a loss scale every gradient
is also checked and divided by the scale; this happens in the backward pass, where XLA fuses it, and
is measured separately, without XLA. The network's weights are used as gradients: they have the same
shapes, and their values do not matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from benchmarks.measure import take_turns
from benchmarks.processes import join_world
from benchmarks.training.exchange import BARE, TAPE, UNSCALE, ours
from benchmarks.training.given_network import summed
from common.errors import UserError
from trainer.config import ExchangeConfig, ModelConfig
from trainer.distributed.horovod import Horovod
from trainer.model.build import build_model
from trainer.presets import PRESETS
from trainer.updates.loss_scale import unscale
from trainer.updates.step_rule import SUMS, Flags, LocalStep

GROUPS = (1, 2, 4)
CLASSES = 1000
TOLERANCE = 0.01
"""Fraction by which the bytes sent may differ from the formula: frames and negotiation."""


def measure(rounds: int, exchanges: int) -> dict[str, Any]:
    """Measure the contenders in turns, in the world of this rank.

    Args:
        rounds: Number of turns of each contender.
        exchanges: Exchanges per turn.
    """
    world = join_world()
    assert isinstance(world, Horovod)
    contenders = Contenders(world, exchanges)
    samples = take_turns(contenders.all, rounds, world)
    sent = contenders.bytes_sent()
    world.shutdown()
    return {"samples": samples, "sent": sent}


class Contenders:
    """Ways to sum the same gradients over ranks."""

    def __init__(self, world: Horovod, exchanges: int) -> None:
        self._world, self._exchanges = world, exchanges
        self._model = model = build_model(ModelConfig(), CLASSES)
        self._weights, self._moving = model.trainable_variables, model.non_trainable_variables
        graphs = {BARE: self._bare, TAPE: self._tape}
        graphs |= {ours(groups): self._ours(groups) for groups in GROUPS}
        graphs[UNSCALE] = self._unscale
        self._contenders = {name: self._repeated(graph) for name, graph in graphs.items()}

    @property
    def gradient_bytes(self) -> int:
        """Return the size of all gradients in bytes."""
        return _bytes(self._weights)

    @property
    def our_bytes(self) -> int:
        """Return the size in bytes of everything that our exchange sums."""
        return _bytes(self._weights) + _bytes(self._moving) + 4 * len(SUMS)

    def bytes_sent(self) -> dict[str, tuple[float, float]]:
        """Return the bytes that this rank sends for one exchange of each contender, and those of a
        ring: 2 (n - 1) / n times the data (Patarasuk and Yuan 2009), with n ranks.

        Raises:
            UserError: They differ by more than one percent.
        """
        sizes = dict.fromkeys(self._contenders, self.our_bytes)
        sizes |= dict.fromkeys((BARE, TAPE), self.gradient_bytes)
        sent = {}
        for name, work in self._contenders.items():
            if name == UNSCALE:
                continue
            self._world.barrier()
            before = _written()
            exchanges = work()
            seen = (_written() - before) / exchanges
            formula = 2 * (self._world.size - 1) / self._world.size * sizes[name]
            if abs(seen / formula - 1) > TOLERANCE:
                raise UserError(
                    f"{name}: sends {seen:,.0f} bytes per exchange, not {formula:,.0f} as a ring"
                )
            sent[name] = (seen, formula)
        return sent

    @property
    def all(self) -> dict[str, Callable[[], int]]:
        """Return the contenders by name; each exchanges several times and returns how often."""
        return self._contenders

    def _repeated(self, exchange: Callable[[], list[tf.Tensor]]) -> Callable[[], int]:
        # All results are returned, because TensorFlow prunes operations that are not used.
        graph = tf.function(exchange, autograph=False)

        def work() -> int:
            for _ in range(self._exchanges):
                graph()
            return self._exchanges

        return work

    def _gradients(self) -> list[tf.Tensor]:
        return [variable.read_value() for variable in self._weights]

    def _bare(self) -> list[tf.Tensor]:
        hvd = self._world.module
        return list(hvd.grouped_allreduce(self._gradients(), op=hvd.Sum, name="bare"))

    def _tape(self) -> list[tf.Tensor]:
        """Sum as most scripts do: one averaging all-reduce per gradient, each in a condition."""

        def loss(*_: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
            return tf.constant(0.0), lambda _: self._gradients()

        with tf.GradientTape() as tape:
            value = tf.custom_gradient(loss)(*self._weights)
        return list(self._world.module.DistributedGradientTape(tape).gradient(value, self._weights))

    def _unscale(self) -> list[tf.Tensor]:
        gradients, overflow = unscale(self._gradients(), tf.constant(1024.0))
        return [*gradients, overflow]

    def _ours(self, groups: int) -> Callable[[], list[tf.Tensor]]:
        config = replace(PRESETS["synthetic"], exchange=ExchangeConfig(groups=groups))
        rule = summed(self._model, config, Horovod(self._world.module, config.exchange))

        def graph() -> list[tf.Tensor]:
            # No overflow and no stop request, which would check all gradients.
            sums = [tf.constant(0.0) for _ in SUMS]
            local = LocalStep(self._gradients(), sums, tf.constant(1.0), [])
            flags = Flags(tf.constant(0, tf.int64), tf.constant(value=False))
            reduced = rule.reduce(local, flags)
            for variable, mean in zip(self._moving, reduced.moving, strict=True):
                variable.assign(mean)
            return [*reduced.gradients, reduced.norm, reduced.finite]

        return graph


def _bytes(variables: Sequence[tf.Variable]) -> int:
    return sum(4 * int(np.prod(variable.shape)) for variable in variables)


def _written() -> int:
    """Return the bytes that this process has written, including to sockets: proc_pid_io(5)."""
    return int(psutil.Process().io_counters().write_chars)
