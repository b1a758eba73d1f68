"""From one rank's gradients to the new state of all ranks: the interface of a step rule, and the
rule that sums the gradients of every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import tensorflow as tf

from trainer.checkpoints.divided import DividedState
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.leaf import Exchanges
from trainer.model.layers import moving_statistics
from trainer.networks import layer_factor
from trainer.updates.division import Division
from trainer.updates.loss_scale import LossScale
from trainer.updates.optimizer import Compiled, Optimizer, build_optimizer, parameters

SUMS: Final = ("loss", "score", "weight", "overflow", "stop", "pause")
"""Scalars that are summed over ranks with every exchange; the last two are requests to leave."""


@dataclass(frozen=True)
class LocalStep:
    """One rank's part of a step."""

    gradients: list[tf.Tensor]
    """Its part of the mean gradients of the global batch; see `LocalGradients`."""
    sums: list[tf.Tensor]
    """Its part of `SUMS`, float32 scalars."""
    scale: tf.Tensor
    """Loss scale, a float32 scalar."""
    before: list[tf.Tensor]
    """What the forward pass has changed, as it was before, if the step may be undone."""


class Flags(NamedTuple):
    """Where a step stands in the run and in a call of the loop."""

    step: tf.Tensor
    """Steps done before it, int64 scalar."""
    last: tf.Tensor
    """Whether the call ends with it, bool scalar."""


class Step(NamedTuple):
    """Result of a step, the same on all ranks but where a rank updates alone."""

    sums: list[tf.Tensor]
    """`SUMS` over all ranks, and over the steps since the last exchange; zeros without one."""
    norm: tf.Tensor
    """Norm of the gradients if all were checked. Otherwise only whether it is finite has a
    meaning."""
    skipped: tf.Tensor
    """Updates left out because a gradient overflowed, float32 scalar."""
    bad: tf.Tensor
    """Whether a loss, gradient or weight is not finite, bool scalar."""

    @property
    def go(self) -> tf.Tensor:
        """Whether the loop may take another step: nothing is bad, and no rank asked to leave."""
        named = dict(zip(SUMS, self.sums, strict=True))
        return ~(self.bad | (named["stop"] + named["pause"] > 0))


@dataclass(frozen=True)
class StepContext:
    """What a step rule is made of."""

    config: TrainConfig
    communicator: Communicator
    division: Division
    loss_scale: LossScale
    exchanges: Exchanges
    """After which steps all ranks are equal."""


class StepRule(Protocol):
    """How the ranks' parts of a step become a new state."""

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables that a checkpoint stores and that are the same on all ranks, by name."""

    @property
    def parts(self) -> Sequence[DividedState]:
        """State of which each rank holds a part."""

    def step(self, local: LocalStep, rate: tf.Tensor, flags: Flags) -> Step:
        """Update the state, inside a graph.

        Args:
            local: This rank's part.
            rate: Learning rate, float32 scalar.
            flags: Where the step stands.
        """


@dataclass(frozen=True)
class Reduced:
    """Sums over all ranks, the same on each."""

    gradients: list[tf.Tensor]
    """Gradients, as means over all images of the global batch; those of parts are the same on the
    ranks that hold the same part."""
    moving: list[tf.Tensor]
    """Moving statistics of batch norm, as means over the batches of all ranks; empty with a single
    batch."""
    sums: list[tf.Tensor]
    """`SUMS`, float32 scalars."""
    norm: tf.Tensor
    """See `Step.norm`."""
    finite: tf.Tensor
    """False if a gradient of any rank overflowed, so that this step must be left out."""


class Summed:
    """Sums gradients, batch-norm statistics, counts and requests over ranks in every step, in one
    grouped all-reduce, so every rank computes the same update.

    Each rank's loss is already divided by the global batch, so the sum of gradients is their mean
    over all images. The moving statistics are averaged: every rank starts a step from the same
    ones, so this equals moving them by the mean of the ranks' batch statistics, and the state of
    all ranks stays the same to the bit.

    The check for finite numbers costs next to nothing: it is `Division.probe`, and all gradients
    are read only on request. A value elsewhere that is not finite makes the loss of the next step
    non-finite. With a loss scale, the sums include whether a gradient overflowed, so that the step
    can be left out. Only when float16 is sent is overflow checked, and the scale removed, after the
    exchange.
    """

    def __init__(self, context: StepContext) -> None:
        self._division = context.division
        self._batches = context.config.batches(context.communicator.size)
        self._loss_scale = context.loss_scale
        model = context.division.model
        self._moving = moving_statistics(model)
        self._assign_moving = self._assign
        if context.config.compute.xla:
            self._assign_moving = tf.function(self._assign, autograph=False, jit_compile=True)
        self.optimizer = self._optimizer(context, model.trainable_variables)
        """Updates the weights by what `_exchange` returns."""

    def _optimizer(self, context: StepContext, variables: Sequence[tf.Variable]) -> Optimizer:
        config = context.config.optimizer
        updated = parameters(variables, config.rates, layer_factor(context.config))
        optimizer = build_optimizer(updated, config, self._division.total)
        return Compiled(optimizer) if context.config.compute.xla else optimizer

    @property
    def state(self) -> dict[str, tf.Variable]:
        """See `StepRule.state`."""
        return self.optimizer.state

    @property
    def parts(self) -> Sequence[DividedState]:
        """See `StepRule.parts`."""
        return ()

    def step(self, local: LocalStep, rate: tf.Tensor, flags: Flags) -> Step:
        """See `StepRule.step`."""
        reduced = self.reduce(local, flags)
        loss, finite = reduced.sums[0], reduced.finite

        def update() -> None:
            self.optimizer.apply(reduced.gradients, rate)
            self._assign_moving(reduced.moving)

        self._loss_scale.guard(finite, update, lambda: self._assign_moving(local.before))
        self._loss_scale.follow(finite)
        bad = ~tf.math.is_finite(loss + reduced.norm)
        skipped = tf.constant(0.0)
        if self._loss_scale.dynamic:
            exhausted = self._loss_scale.exhausted(finite, local.scale)
            bad = tf.where(finite, bad, ~tf.math.is_finite(loss) | exhausted)
            skipped = 1.0 - tf.cast(finite, tf.float32)
        return Step(reduced.sums, reduced.norm, skipped, bad)

    def reduce(self, local: LocalStep, flags: Flags) -> Reduced:
        """Sum over all ranks, and check whether the sums are finite."""
        gradients, norm, sums = local.gradients, None, local.sums
        moving: list[tf.Tensor] = []
        if self._batches > 1:
            flat = [tf.reshape(variable, [-1]) for variable in self._moving]
            with tf.device(self._division.device):
                extras = tf.concat([*flat, tf.stack(sums)], 0)
                gradients, extras, norm = self._exchange(gradients, extras)
            *means, last = tf.split(extras, [*(int(one.shape[0]) for one in flat), len(SUMS)])
            sums = tf.unstack(last)
            moving = [
                tf.reshape(mean / self._batches, variable.shape)
                for mean, variable in zip(means, self._moving, strict=True)
            ]
        overflow, stop, pause = sums[3:]
        if self._loss_scale.after_exchange:
            norm = tf.linalg.global_norm(gradients) / local.scale
            gradients = [gradient / local.scale for gradient in gradients]
            return Reduced(gradients, moving, sums, norm, tf.math.is_finite(norm))
        if norm is None:
            # A save follows a request to leave.
            norm = tf.cond(
                flags.last | (stop + pause > 0),
                lambda: self._division.norm(gradients),
                lambda: self._division.probe(gradients),
            )
        return Reduced(gradients, moving, sums, norm, overflow <= 0)

    def _exchange(
        self, gradients: list[tf.Tensor], extras: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """Return the sums of gradients and extras over ranks, and the norm of all gradients if
        it is known.
        """
        gradients, extras = self._division.summed(gradients, extras)
        return gradients, extras, None

    def _assign(self, values: Sequence[tf.Tensor]) -> None:
        """Assign batch norm's moving statistics, if there are any."""
        if values:
            for variable, value in zip(self._moving, values, strict=True):
                variable.assign(value)
