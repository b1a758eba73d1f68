"""The training loop.

    Python asks for up to `steps_per_loop` steps; then, inside the graph, for each of them:
        take a batch                        (time spent waiting is added up)
        normalise, forward, backward        compiled as one function; XLA if asked for
        one grouped all-reduce              of gradients, batch-norm statistics, sums, stop flag
        check that all of it is finite      with the same answer on every rank
        update the weights                  or, on every rank, skip and halve the loss scale
        count the step                      the heartbeat
        leave if a stop was agreed on       so every rank leaves after the same step

The state that Python watches while the graph runs (step, stop flag) lives in variables that every
step reads and writes, so neither a stop request nor the heartbeat waits for the end of a call.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.distributed import Communicator
from trainer.gradients import LocalGradients, Statistics
from trainer.optimizer import Momentum

INITIAL_LOSS_SCALE = 2.0**15
SCALE_GROWTH_STEPS = 2000
"""Finite steps after which the loss scale doubles (Micikevicius et al. 2018, section 3.2)."""

_SUMS = ("loss", "correct", "weight", "stop")
"""Scalars that every rank adds to the exchange, after the batch-norm statistics."""


@dataclass(frozen=True)
class LoopReport:
    """What one call from Python did, over all ranks."""

    steps: int
    loss: float
    """Mean over the images that count."""
    accuracy: float
    """Top-1 on the training batches, 0 to 1."""
    images: int
    """Images that counted."""
    gradient_norm: float
    """Of the last step, after unscaling."""
    wait_seconds: float
    """Time that this rank waited for data."""
    skipped_steps: int
    """Steps left out because gradients overflowed float16."""
    stopped: bool
    """Whether the ranks agreed to stop."""
    bad_step: int | None
    """The step whose loss or gradient was not finite, if that ended the loop."""


class Loop:
    """The compiled loop and the state of a training that is not in the model or the optimizer."""

    def __init__(
        self,
        model: keras.Model,
        optimizer: Momentum,
        communicator: Communicator,
        statistics: Statistics,
        config: TrainConfig,
        next_batch: Callable[[], dict[str, Any]],
    ) -> None:
        self._optimizer, self._communicator = optimizer, communicator
        self._config, self._next_batch = config, next_batch
        self._moving = model.non_trainable_variables
        self._scaled = config.compute.precision == "mixed_float16"
        with tf.device("CPU:0"):
            self.step = tf.Variable(0, dtype=tf.int64, name="step")
            self.loss_scale = tf.Variable(
                INITIAL_LOSS_SCALE if self._scaled else 1.0, name="loss_scale"
            )
            self.finite_steps = tf.Variable(0, dtype=tf.int32, name="finite_steps")
            self._stop = tf.Variable(0.0, name="stop")
            self._bad_step = tf.Variable(-1, dtype=tf.int64, name="bad_step")
            self._local_bad = tf.Variable(False, name="local_bad")
            self._wait = tf.Variable(0.0, dtype=tf.float64, name="wait_seconds")
        local = LocalGradients(model, statistics, config, self.global_batch)
        self._local = tf.function(local, autograph=False, jit_compile=config.compute.xla)
        rates = tf.TensorSpec([None], tf.float32)
        self._graph = tf.function(self._steps, input_signature=[rates], autograph=False)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="loop")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps of the loop, by name."""
        return {
            "step": self.step,
            "loss_scale": self.loss_scale,
            "finite_steps": self.finite_steps,
        }

    @property
    def global_batch(self) -> int:
        return self._config.batch_size * self._communicator.size

    def request_stop(self) -> None:
        """Ask all ranks to leave after the step that is running; safe in a signal handler."""
        # A handler may run while Python traces a graph, which must not record the assignment.
        with tf.init_scope():
            self._stop.assign(1.0)

    def run(self, learning_rates: Sequence[float], tick: Callable[[int], None]) -> LoopReport:
        """Take one step for each learning rate.

        The graph runs in a thread of its own, so that Python handles signals meanwhile.

        Args:
            learning_rates: of each step.
            tick: called about ten times a second with the steps done since the start of training.

        Raises:
            tensorflow.errors.OpError: a rank is gone, or the data cannot be read.
        """
        rates = tf.constant(learning_rates, tf.float32)
        future: Future[Any] = self._worker.submit(self._graph, rates)
        while True:
            try:
                sums = future.result(timeout=0.1)
                break
            except NotDone:
                tick(int(self.step.numpy()))
        loss, correct, weight, stop, norm, steps, skipped = (float(value) for value in sums.numpy())
        wait = float(self._wait.numpy())
        self._wait.assign(0.0)
        bad = int(self._bad_step.numpy())
        return LoopReport(
            steps=int(steps),
            loss=loss * self.global_batch / weight if weight else 0.0,
            accuracy=correct / weight if weight else 0.0,
            images=round(weight),
            gradient_norm=norm,
            wait_seconds=wait,
            skipped_steps=int(skipped),
            stopped=stop > 0,
            bad_step=None if bad < 0 else bad,
        )

    def bad_ranks(self) -> list[int]:
        """Ranks whose own part of the bad step was not finite. Every rank must call it."""
        flags = self._communicator.gather(bool(self._local_bad.numpy()))
        return [rank for rank, flag in enumerate(flags) if flag]

    def close(self) -> None:
        """End the worker thread."""
        self._worker.shutdown()

    def _steps(self, learning_rates: tf.Tensor) -> tf.Tensor:
        """Steps inside the graph; the sums over them, and the last step's gradient norm."""
        wanted = tf.shape(learning_rates)[0]

        def more(number: tf.Tensor, go: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return (number < wanted) & go

        def body(number: tf.Tensor, _: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
            step_sums, norm, skipped, go = self._one_step(learning_rates[number])
            # float64, as float32 would lose count of the images of a long call.
            step = tf.cast(tf.concat([step_sums, [norm, 1.0, skipped]], 0), tf.float64)
            # All but the norm are added up.
            keep = tf.constant([1.0] * len(_SUMS) + [0.0, 1.0, 1.0], tf.float64)
            return number + 1, go, sums * keep + step

        width = len(_SUMS) + 3
        return tf.while_loop(
            more,
            body,
            (tf.constant(0), tf.constant(value=True), tf.zeros([width], tf.float64)),
            # Two steps at once would put two all-reduces of one name in flight.
            parallel_iterations=1,
        )[2]

    def _one_step(self, learning_rate: tf.Tensor) -> tuple[tf.Tensor, ...]:
        batch = self._timed_batch()
        before = [tf.identity(variable) for variable in self._moving] if self._scaled else []
        scale = self.loss_scale.read_value()
        gradients, local = self._local(batch, scale)
        gradients, moving, sums = self._exchange(gradients, local)
        loss = sums[_SUMS.index("loss")]
        norm = tf.linalg.global_norm(gradients) / scale
        if self._scaled:
            finite = tf.math.is_finite(norm)
            tf.cond(
                finite,
                lambda: self._update([g / scale for g in gradients], moving, learning_rate),
                lambda: self._skip(before),
            )
            # A scale of one is no scale: then the gradient itself is too large.
            bad = ~tf.math.is_finite(loss) | (~finite & (scale <= 1.0))
            skipped = 1.0 - tf.cast(finite, tf.float32)
        else:
            self._update(gradients, moving, learning_rate)
            bad = ~tf.math.is_finite(loss + norm)
            skipped = tf.constant(0.0)
        step = self.step.assign_add(1)
        self._bad_step.assign(tf.where(bad, step - 1, self._bad_step))
        stop = sums[_SUMS.index("stop")] > 0
        return sums, norm, skipped, ~(stop | bad)

    def _timed_batch(self) -> dict[str, Any]:
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            batch = self._next_batch()
        with tf.control_dependencies([batch["label"]]):
            self._wait.assign_add(tf.timestamp() - start)
        return batch

    def _exchange(
        self, gradients: list[tf.Tensor], local: tf.Tensor
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """Sum everything over ranks in one exchange.

        Each rank's loss is already divided by the global batch, so the sum of gradients is their
        mean over all images. The moving statistics are averaged: every rank starts a step from the
        same ones, so this equals moving them by the mean of the ranks' batch statistics, and the
        state of all ranks stays the same to the bit.
        """
        # A rank's own overflow shows in its loss; remembered so that it can be named.
        self._local_bad.assign(self._local_bad | ~tf.math.is_finite(local[0]))
        sums = tf.concat([local, [self._stop.read_value()]], 0)
        if self._communicator.size == 1:
            return gradients, [], sums
        flat = [tf.reshape(variable, [-1]) for variable in self._moving]
        gradients, extras = self._communicator.exchange(gradients, tf.concat([*flat, sums], 0))
        sizes = [int(value.shape[0]) for value in flat] + [len(_SUMS)]
        *means, sums = tf.split(extras, sizes)
        moving = [
            tf.reshape(mean / self._communicator.size, variable.shape)
            for mean, variable in zip(means, self._moving, strict=True)
        ]
        return gradients, moving, sums

    def _update(
        self, gradients: list[tf.Tensor], moving: list[tf.Tensor], learning_rate: tf.Tensor
    ) -> tf.Tensor:
        self._optimizer.apply(gradients, learning_rate)
        if moving:
            self._restore(moving)
        if self._scaled:
            grown = self.finite_steps + 1 >= SCALE_GROWTH_STEPS
            self.loss_scale.assign(tf.where(grown, self.loss_scale * 2.0, self.loss_scale))
            self.finite_steps.assign(tf.where(grown, 0, self.finite_steps + 1))
        return tf.constant(0)

    def _skip(self, before: list[tf.Tensor]) -> tf.Tensor:
        self._restore(before)
        self.loss_scale.assign(tf.maximum(self.loss_scale / 2.0, 1.0))
        self.finite_steps.assign(0)
        return tf.constant(0)

    def _restore(self, values: list[tf.Tensor]) -> None:
        for variable, value in zip(self._moving, values, strict=True):
            variable.assign(value)
