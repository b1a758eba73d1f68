"""How a run updates its weights: from the batch of a rank to the new state of all ranks.

`Strategy` is data parallel: each rank has the whole network and differentiates its own batch, and
one all-reduce adds up the gradients of every step. An extra that divides the network or the state,
or that exchanges something else, derives from it. A run has exactly one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import tensorflow as tf
import tf_keras as keras

from common.program import load
from trainer.checkpoints.divided import DividedState
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.model.build import build_model
from trainer.model.layers import moving_statistics
from trainer.networks import layer_factor
from trainer.tasks.task import Task
from trainer.updates.gradients import SCALARS, MicroBatchGradients, Sums, Tape
from trainer.updates.loss_scale import LossScale
from trainer.updates.optimizer import Compiled, Optimizer, build_optimizer, parameters

SUMS: Final = ("loss", "score", "weight", "overflow", "stop", "pause")
"""Scalars that are summed over ranks with every exchange; the last two are requests to leave."""
Differentiate = Callable[[dict[str, tf.Tensor], tf.Tensor | None, tf.Tensor | int], Sums]
"""Differentiates a micro-batch, given its part of the batch, the steps done and its number."""


@dataclass(frozen=True)
class LocalStep:
    """One rank's part of a step."""

    gradients: list[tf.Tensor]
    """Its part of the mean gradients of the global batch; see `Strategy.gradients`."""
    sums: list[tf.Tensor]
    """Its part of `SUMS`, float32 scalars."""
    scale: tf.Tensor
    """Loss scale, a float32 scalar."""
    before: list[tf.Tensor]
    """The state before the forward pass, if the step may be undone."""


class StepPlace(NamedTuple):
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
    """Norm of the gradients at the last step of a call; of a rank's own if it updates alone. At
    other steps only whether it is finite has a meaning."""
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


def make_strategy(
    config: TrainConfig, classes: int, world: Communicator, total_steps: int
) -> "Strategy":
    """Return the strategy that a configuration asks for; see `Strategy`."""
    strategy: Strategy = load(config.strategy.code)(config, classes, world, total_steps)
    return strategy


class Strategy:
    """Data parallel. Its methods stand in the order of a run: set-up, gradients, exchange and
    update, checkpoints.
    """

    device: str | None = None
    """Device that sums over ranks, of those of this rank; None leaves the choice to TensorFlow."""
    compiles = True
    """Whether forward and backward pass are compiled as one function, whose results would all go to
    the first device."""
    keeps_last_layer = False
    """Whether the last layer keeps its own weights if the others start from a file."""
    more_flops = 0.0
    """Operations of a step for each image of this rank, in addition to those of `model`."""
    model: keras.Model
    """The network on this rank."""

    def __init__(
        self, config: TrainConfig, classes: int, world: Communicator, total_steps: int
    ) -> None:
        """Build the network with its initial weights, and the optimizer.

        Args:
            config: Configuration of the run.
            classes: Classes of the data set.
            world: World of ranks.
            total_steps: Steps of the whole run.

        Raises:
            ConfigError: The network cannot be built, or cannot be divided; says why.
        """
        self._config, self._world, self._total_steps = config, world, total_steps
        self.loss_scale = LossScale(config)
        self.model = self.network(classes)
        self._batches = config.strategy.batches(world.size)
        self._moving = moving_statistics(self.model)
        self._assign_moving = self._assign
        if config.compute.xla:
            self._assign_moving = tf.function(self._assign, autograph=False, jit_compile=True)
        self.optimizer = self._optimizer(self.model.trainable_variables)
        """Updates the weights by what `exchanged` returns."""

    # The state.

    def network(self, classes: int) -> keras.Model:
        """Build the network of this rank."""
        config = self._config
        return build_model(
            config.model, classes, config.compute.precision, config.seed, config.task
        )

    def task(self, task: Task) -> Task:
        """Return the task of this network, given that of the whole one."""
        return task

    def _optimizer(self, variables: Sequence[tf.Variable]) -> Optimizer:
        config = self._config.optimizer
        updated = parameters(variables, config.rates, layer_factor(self._config))
        optimizer = build_optimizer(updated, config, self.total)
        return Compiled(optimizer) if self._config.compute.xla else optimizer

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the optimizer that a checkpoint stores and that are the same on all ranks,
        by name.
        """
        return self.optimizer.state

    def parts(self, variables: Mapping[str, tf.Variable]) -> Sequence[DividedState]:
        """Return the state of which each rank holds a part, given all variables by name."""
        del variables
        return ()

    # The forward and backward pass.

    def gradients(
        self,
        compute: MicroBatchGradients,
        batch: dict[str, tf.Tensor],
        scale: tf.Tensor,
        step: tf.Tensor | None = None,
    ) -> Sums:
        """Differentiate this rank's part of the loss, inside a graph. If a rank takes several
        batches per step, the moving statistics of batch norm hold the sums of theirs afterwards.

        Args:
            compute: Differentiates a micro-batch.
            batch: The rank's batch; see `trainer.data.pipeline.Batch`.
            scale: Factor of the loss that keeps small gradients from vanishing in float16.
            step: Steps done, int64 scalar, from which dropout follows; None if nothing is random.

        Returns:
            The gradients of (sum of the images' losses) / (global batch), one per trainable
            variable, whose sum over ranks is the mean gradient; and float32 scalars: that loss, the
            sum of the training metric, the sum of the weights, 1 if a gradient overflowed, else 0,
            and that loss without smoothing and weights.

            If float16 gradients are sent, they are returned with the scale, because they need it on
            the wire; overflow is then checked after the exchange, which may also cause it.
        """
        return self._of_batch(compute, batch, scale, step, self._world.rank)

    def _of_batch(
        self,
        compute: MicroBatchGradients,
        batch: dict[str, tf.Tensor],
        scale: tf.Tensor,
        step: tf.Tensor | None,
        rank: tf.Tensor | int,
    ) -> Sums:
        differentiate = partial(compute, scale, rank)
        gradients, (*sums, plain) = self.accumulated(differentiate, batch, step)
        gradients, overflow = self.loss_scale.unscaled(gradients, scale)
        return gradients, [*sums, overflow, plain]

    def accumulated(
        self, differentiate: Differentiate, batch: dict[str, tf.Tensor], step: tf.Tensor | None
    ) -> Sums:
        """Add up gradients and sums of micro-batches, inside a graph."""
        pieces = self._config.optimizer.accumulation
        if pieces == 1:
            return differentiate(batch, step, 0)
        split = {
            key: tf.reshape(value, [pieces, -1, *value.shape[1:]]) for key, value in batch.items()
        }

        def body(number: tf.Tensor, *before: list[tf.Tensor]) -> tuple[Any, ...]:
            piece = {key: value[number] for key, value in split.items()}
            more = differentiate(piece, step, number)
            return number + 1, *map(added, before, more)

        zeros = [tf.zeros_like(weight) for weight in self.model.trainable_variables]
        _, gradients, sums = tf.while_loop(
            lambda number, *_: number < pieces,
            body,
            (tf.constant(0), zeros, [tf.constant(0.0)] * SCALARS),
            parallel_iterations=1,
        )
        return gradients, sums

    def tape(self) -> Tape:
        """Return what differentiates the loss."""
        tape: Tape = tf.GradientTape(watch_accessed_variables=False)
        return tape

    # The exchange and the update.

    def update(self, local: LocalStep, rate: tf.Tensor, place: StepPlace) -> Step:
        """Sum gradients, batch-norm statistics, counts and requests over ranks in grouped
        all-reduces, by default one, and update the state, inside a graph: every rank computes the
        same update.

        Each rank's loss is already divided by the global batch, so the sum of gradients is their
        mean over all images. The moving statistics are averaged: every rank starts a step from the
        same ones, so this equals moving them by the mean of the ranks' batch statistics, and the
        state of all ranks stays bit-identical.

        The check for finite numbers costs next to nothing: it is `probe`, and all gradients are
        read only on request. A value elsewhere that is not finite makes the loss of the next step
        non-finite. With a loss scale, the sums include whether a gradient overflowed, so that the
        step can be left out. Only when float16 is sent is overflow checked, and the scale removed,
        after the exchange.

        Args:
            local: This rank's part.
            rate: Learning rate, float32 scalar.
            place: Where the step stands.
        """
        reduced = self.reduce(local, place)
        loss, finite = reduced.sums[0], reduced.finite

        def update() -> None:
            self.optimizer.apply(reduced.gradients, rate)
            self._assign_moving(reduced.moving)

        self.loss_scale.guard(finite, update, lambda: self._assign_moving(local.before))
        self.loss_scale.follow(finite)
        bad = ~tf.math.is_finite(loss + reduced.norm)
        skipped = tf.constant(0.0)
        if self.loss_scale.dynamic:
            exhausted = self.loss_scale.exhausted(finite, local.scale)
            bad = tf.where(finite, bad, ~tf.math.is_finite(loss) | exhausted)
            skipped = 1.0 - tf.cast(finite, tf.float32)
        return Step(reduced.sums, reduced.norm, skipped, bad)

    def reduce(self, local: LocalStep, place: StepPlace) -> Reduced:
        """Sum over all ranks, and check whether the sums are finite."""
        gradients, norm, sums = local.gradients, None, local.sums
        moving: list[tf.Tensor] = []
        if self._batches > 1:
            flat = [tf.reshape(variable, [-1]) for variable in self._moving]
            with tf.device(self.device):
                counts = tf.concat([*flat, tf.stack(sums)], 0)
                gradients, counts, norm = self.exchanged(gradients, counts)
            *means, last = tf.split(counts, [*(int(part.shape[0]) for part in flat), len(SUMS)])
            sums = tf.unstack(last)
            moving = [
                tf.reshape(mean / self._batches, variable.shape)
                for mean, variable in zip(means, self._moving, strict=True)
            ]
        overflow, stop, pause = sums[3:]
        if self.loss_scale.after_exchange:
            norm = tf.linalg.global_norm(gradients) / local.scale
            gradients = [gradient / local.scale for gradient in gradients]
            return Reduced(gradients, moving, sums, norm, tf.math.is_finite(norm))
        if norm is None:
            # A save follows a request to leave.
            norm = tf.cond(
                place.last | (stop + pause > 0),
                lambda: self.norm(gradients),
                lambda: self.probe(gradients),
            )
        return Reduced(gradients, moving, sums, norm, overflow <= 0)

    def exchanged(
        self, gradients: list[tf.Tensor], counts: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor | None]:
        """Sum gradients and one flat float32 vector over all ranks that hold the same variables;
        also return the norm of all gradients if it is known.
        """
        return *self._world.allreduce(gradients, counts), None

    def norm(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the norm of the summed gradients of the whole network."""
        return tf.linalg.global_norm(gradients)

    def probe(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return a number that is finite if the backward pass was, on all ranks alike.

        It reads the gradient of the first layer, which depends on the whole backward pass: one
        operation instead of the four of a norm.
        """
        return tf.nn.l2_loss(gradients[0])

    def total(self, squares: tf.Tensor) -> tf.Tensor:
        """Complete sums of squares of kernels; see `Lars`."""
        return squares

    def _assign(self, values: Sequence[tf.Tensor]) -> None:
        """Assign batch norm's moving statistics, if there are any."""
        if values:
            for variable, value in zip(self._moving, values, strict=True):
                variable.assign(value)


def added(left: list[tf.Tensor], right: list[tf.Tensor]) -> list[tf.Tensor]:
    """Add up tensors in pairs."""
    return [a + b for a, b in zip(left, right, strict=True)]
