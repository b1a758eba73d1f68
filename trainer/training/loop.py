"""The training loop.

    Python asks for up to `steps_per_loop` steps; then, inside the graph, for each of them:
        take a batch                        (time spent waiting is added up)
        normalise, forward, backward        compiled as one function; XLA if asked for
        one grouped all-reduce              of gradients, batch-norm statistics, sums, stop flag
        check that it is finite             with the same answer on every rank
        update the weights                  or, on every rank, skip and halve the loss scale
        count the step                      the heartbeat
        leave if any rank asked for it      so every rank leaves after the same step

With periodic averaging (`exchange.every`), a step updates the weights by this rank's own gradients,
and every so many steps one grouped all-reduce averages the state and carries sums and requests.

The state that Python watches while the graph runs (step, requests to leave) lives in variables that
every step reads and writes, so neither a request nor the heartbeat waits for the end of a call.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass
from math import isfinite
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.diagnostics.device import stage_devices
from trainer.distributed.communicator import Communicator
from trainer.model.layers import moving_statistics
from trainer.model.randomness import is_random
from trainer.tasks.task import Task
from trainer.training.gradients import LocalGradients
from trainer.updates.allreduce import SUMS, AllReduce
from trainer.updates.averaging import Averaging
from trainer.updates.optimizer import Optimizer
from trainer.updates.sharded_optimizer import ShardedExchange, ShardedOptimizer

INITIAL_LOSS_SCALE = 2.0**15
SCALE_GROWTH_STEPS = 2000
"""Finite steps after which the loss scale doubles (Micikevicius et al. 2018, section 3.2)."""

_TOTALS = (*SUMS, "wait", "skipped", "bad", "local_loss")
"""Values added up over the steps of a call; `SUMS` are over all ranks, the others of this rank."""


@dataclass(frozen=True)
class LoopReport:
    """Result of one call from Python, over all ranks."""

    steps: int
    loss: float
    """Mean loss over the images that count."""
    score: float
    """The task's training metric, as a mean over the images that count, 0 to 1."""
    images: int
    """Images that counted."""
    gradient_norm: float
    """Gradient norm of the last step, after unscaling; of this rank's own gradients if the ranks
    average their states."""
    wait_seconds: float
    """Seconds that this rank waited for data."""
    skipped_steps: int
    """Steps left out because gradients overflowed float16; counted over ranks if the ranks average
    their states."""
    stopped: bool
    """Whether the ranks agreed to stop."""
    paused: bool
    """Whether the ranks agreed to return to Python."""
    bad_step: int | None
    """The step, counted from 0, whose loss or gradient was not finite, if that ended the loop; it
    counts as done."""


class Loop:
    """The compiled loop and the state of a training that is not in the model or the optimizer."""

    def __init__(
        self,
        task: Task,
        model: keras.Model,
        optimizer: Optimizer,
        communicator: Communicator,
        normalization: Normalization,
        config: TrainConfig,
        global_batch: int,
        next_batch: Callable[[], dict[str, Any]],
        divided: int = 0,
    ) -> None:
        """Args:
        task: Loss and training metric.
        model: Network to train.
        optimizer: Updates the model's variables.
        communicator: World of ranks.
        normalization: Normalization of the images.
        config: Configuration of the run.
        global_batch: Images per step, over all ranks.
        next_batch: Returns this rank's next batch; called inside a graph.
        divided: Number of the model's trained variables, counted from the end, of which ranks
            hold parts.
        """
        self._optimizer, self._communicator = optimizer, communicator
        self._global_batch, self._next_batch = global_batch, next_batch
        self._moving, self._random = moving_statistics(model), is_random(model)
        self._scaled = config.compute.precision == "mixed_float16"
        stages = config.model.stages
        # Horovod uses one GPU of a process.
        device = stage_devices(stages)[0] if stages > 1 else None
        self._allreduce = (
            ShardedExchange(communicator, self._moving, optimizer)
            if isinstance(optimizer, ShardedOptimizer)
            else AllReduce(
                communicator,
                self._moving,
                unscale_after=config.exchange.compression == "fp16",
                divided=divided,
                device=device,
            )
        )
        self._every = config.exchange.every
        self._averaging = Averaging(
            communicator,
            model.trainable_variables,
            [*optimizer.state.values(), *self._moving],
            device,
        )
        with tf.device("CPU:0"):
            self.step = tf.Variable(0, dtype=tf.int64, name="step")
            self.loss_scale = tf.Variable(
                INITIAL_LOSS_SCALE if self._scaled else 1.0, name="loss_scale"
            )
            self.finite_steps = tf.Variable(0, dtype=tf.int32, name="finite_steps")
            self._stop = tf.Variable(0.0, name="stop")
            self._pause = tf.Variable(0.0, name="pause")
            self._computed = tf.Variable(0, dtype=tf.int64, name="computed")
        rank = communicator.rank
        local = LocalGradients(task, model, normalization, config, global_batch, rank)
        self._local: Callable[..., Any] = local
        if stages == 1:
            self._local = tf.function(local, autograph=False, jit_compile=config.compute.xla)
        # The results of a function would all go to the first device.
        rates = tf.TensorSpec([None], tf.float32)
        self._graph = tf.function(self._steps, input_signature=[rates], autograph=False)
        averages = tf.TensorSpec([None], tf.bool)
        self._own_graph = tf.function(
            self._steps, input_signature=[rates, averages], autograph=False
        )
        self._local_bad = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="loop")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the loop that a checkpoint stores, by name."""
        return {
            "step": self.step,
            "loss_scale": self.loss_scale,
            "finite_steps": self.finite_steps,
        }

    @property
    def arrived(self) -> bool:
        """Whether this rank has computed its gradients of the current step and waits for those of
        the other ranks.
        """
        return int(self._computed.numpy()) > int(self.step.numpy())

    def request_stop(self) -> None:
        """Ask all ranks to leave the loop after the current step; safe in a signal handler."""
        # A handler may run while Python traces a graph; the trace must not record the assignment.
        with tf.init_scope():
            self._stop.assign(1.0)

    def request_pause(self) -> None:
        """Have the current call return on all ranks after the current step."""
        with tf.init_scope():
            self._pause.assign(1.0)

    def rewind(self, step: int) -> None:
        """Continue counting from another step, whose variables have been restored."""
        self._computed.assign(step)

    def run(
        self,
        learning_rates: Sequence[float],
        tick: Callable[[int], None],
        first_step: int = 0,
        averages: Sequence[bool] | None = None,
    ) -> LoopReport:
        """Take one step for each learning rate.

        The graph runs in a thread of its own, so that Python handles signals meanwhile.

        Args:
            learning_rates: Learning rate of each step.
            tick: Called about ten times per second with the steps done since the start of training.
            first_step: Number of the first step in a profile.
            averages: Whether the ranks' states are averaged after each step, the last one included;
                None if the gradients of every step are summed.

        Raises:
            tensorflow.errors.OpError: A rank is gone, or the data cannot be read.
        """
        rates = tf.constant(learning_rates, tf.float32)
        given = [rates] if averages is None else [rates, tf.constant(averages, tf.bool)]
        future: Future[Any] = self._worker.submit(self._call, given, first_step)
        while True:
            try:
                totals, norm, steps = future.result(timeout=0.1)
                break
            except NotDone:
                tick(int(self.step.numpy()))
        self._pause.assign(0.0)
        values = dict(zip(_TOTALS, totals.numpy().tolist(), strict=True))
        weight = values["weight"]
        self._local_bad = not isfinite(values["local_loss"])
        return LoopReport(
            steps=int(steps.numpy()),
            loss=values["loss"] * self._global_batch / weight if weight else 0.0,
            score=values["score"] / weight if weight else 0.0,
            images=round(weight),
            gradient_norm=float(norm.numpy()),
            wait_seconds=values["wait"],
            skipped_steps=int(values["skipped"]),
            stopped=values["stop"] > 0,
            paused=values["pause"] > 0,
            bad_step=int(self.step.numpy()) - 1 if values["bad"] else None,
        )

    def bad_ranks(self) -> list[int]:
        """Return the ranks whose part of the bad step was not finite. Every rank must call it."""
        flags = self._communicator.gather(self._local_bad)
        return [rank for rank, flag in enumerate(flags) if flag]

    def close(self) -> None:
        """End the worker thread."""
        self._worker.shutdown()

    def _call(self, given: Sequence[tf.Tensor], first_step: int) -> tuple[tf.Tensor, ...]:
        graph = self._graph if len(given) == 1 else self._own_graph
        with tf.profiler.experimental.Trace("train", step_num=first_step, _r=1):
            result: tuple[tf.Tensor, ...] = graph(*given)
        return result

    def _steps(
        self, learning_rates: tf.Tensor, averages: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, ...]:
        """Take steps inside the graph; return totals, last gradient norm and number of steps."""
        count = tf.shape(learning_rates)[0]

        def more(number: tf.Tensor, go: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return (number < count) & go

        def body(
            number: tf.Tensor, _: tf.Tensor, totals: tf.Tensor, __: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            rate, last = learning_rates[number], tf.equal(number + 1, count)
            if averages is None:
                step, norm, go = self._one_step(rate, last)
            else:
                step, norm, go = self._own_step(rate, averages[number])
            return number + 1, go, totals + step, norm

        start = (
            tf.constant(0),
            tf.constant(value=True),
            tf.zeros([len(_TOTALS)], tf.float64),
            tf.constant(0.0),
        )
        # Parallel iterations would have two all-reduces of the same name in flight.
        steps, _, totals, norm = tf.while_loop(more, body, start, parallel_iterations=1)
        return totals, norm, steps

    def _one_step(
        self, learning_rate: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        gradients, local, before, scale, wait = self._local_step()
        with tf.control_dependencies(gradients):
            self._computed.assign(self.step + 1)
        mine = [*local, self._stop.read_value(), self._pause.read_value()]
        reduced = self._allreduce.reduce(gradients, mine, scale, last)
        bad = ~tf.math.is_finite(reduced.sums["loss"] + reduced.norm)
        skipped = tf.constant(0.0)
        if self._scaled:
            tf.cond(
                reduced.finite,
                lambda: self._update(reduced.gradients, reduced.moving, learning_rate),
                lambda: self._skip(before),
            )
            # At a scale of 1 the gradient itself is too large, not the scale.
            too_large = ~tf.math.is_finite(reduced.sums["loss"]) | (scale <= 1.0)
            bad = tf.where(reduced.finite, bad, too_large)
            skipped = 1.0 - tf.cast(reduced.finite, tf.float32)
        else:
            self._update(reduced.gradients, reduced.moving, learning_rate)
        # Otherwise a rank could count the step before it has waited for the others.
        with tf.control_dependencies([reduced.norm]):
            self.step.assign_add(1)
        row = [*reduced.sums.values(), wait, skipped, tf.cast(bad, tf.float32), local[0]]
        # float32 cannot count the images of a long call exactly.
        totals = tf.cast(tf.stack(row), tf.float64)
        return totals, reduced.norm, ~(bad | reduced.leave)

    def _own_step(
        self, learning_rate: tf.Tensor, average: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Update by this rank's own gradients, then average over ranks if asked for."""
        gradients, local, before, scale, wait = self._local_step()
        gradients = self._averaging.own(gradients)
        *_, overflow = local
        if self._scaled:
            # The scale is the same on all ranks, so it changes only with an average.
            tf.cond(
                overflow <= 0,
                lambda: self._apply(gradients, learning_rate),
                lambda: self._restore(before),
            )
        else:
            self._optimizer.apply(gradients, learning_rate)
        self._averaging.add(local)
        self._computed.assign(self.step + 1)
        norm = tf.cond(
            average,
            lambda: tf.linalg.global_norm(gradients),
            lambda: tf.nn.l2_loss(gradients[0]),
        )
        sums, bad, leave = tf.cond(
            average,
            lambda: self._average(scale),
            lambda: (tf.zeros([len(SUMS)]), tf.constant(value=False), tf.constant(value=False)),
        )
        with tf.control_dependencies([norm, sums]):
            self.step.assign_add(1)
        # A rank leaves out steps of its own, so these are counted over ranks.
        skipped = sums[SUMS.index("overflow")]
        row = [*tf.unstack(sums), wait, skipped, tf.cast(bad, tf.float32), local[0]]
        return tf.cast(tf.stack(row), tf.float64), norm, ~(bad | leave)

    def _average(self, scale: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Average over ranks.

        Returns:
            The sums since the last average, whether something is not finite, and whether to leave.
        """
        averaged = self._averaging.average([self._stop.read_value(), self._pause.read_value()])
        bad = ~averaged.finite
        if self._scaled:
            overflow = averaged.sums["overflow"] > 0
            bad |= overflow & (scale <= 1.0)
            tf.cond(overflow, self._halve_scale, lambda: self._raise_scale(self._every))
        return tf.stack(list(averaged.sums.values())), bad, averaged.leave

    def _apply(self, gradients: list[tf.Tensor], learning_rate: tf.Tensor) -> tf.Tensor:
        self._optimizer.apply(gradients, learning_rate)
        return tf.constant(0)

    def _restore(self, before: list[tf.Tensor]) -> tf.Tensor:
        self._allreduce.assign_moving(before)
        return tf.constant(0)

    def _local_step(
        self,
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor], tf.Tensor, tf.Tensor]:
        """Compute this rank's part of a step.

        Returns:
            Gradients and sums; the moving statistics of before, with a loss scale only; the loss
            scale; and the seconds spent waiting for the batch.
        """
        batch, wait = self._timed_batch()
        before = [tf.identity(variable) for variable in self._moving] if self._scaled else []
        scale = self.loss_scale.read_value() if self._scaled else tf.constant(1.0)
        step = self.step.read_value() if self._random else None
        gradients, local = self._local(batch, scale, step)
        return gradients, local, before, scale, wait

    def _timed_batch(self) -> tuple[dict[str, Any], tf.Tensor]:
        """Return the next batch, and the seconds spent waiting for it."""
        start = tf.timestamp()
        with tf.control_dependencies([start]):
            batch = self._next_batch()
        with tf.control_dependencies([batch["target"]]):
            return batch, tf.cast(tf.timestamp() - start, tf.float32)

    def _update(
        self, gradients: list[tf.Tensor], moving: list[tf.Tensor], learning_rate: tf.Tensor
    ) -> tf.Tensor:
        self._optimizer.apply(gradients, learning_rate)
        self._allreduce.assign_moving(moving)
        if self._scaled:
            self._raise_scale(1)
        return tf.constant(0)

    def _skip(self, before: list[tf.Tensor]) -> tf.Tensor:
        self._allreduce.assign_moving(before)
        return self._halve_scale()

    def _raise_scale(self, steps: int) -> tf.Tensor:
        """Count finite steps, and double the scale after enough of them."""
        count = self.finite_steps + steps
        grown = count >= SCALE_GROWTH_STEPS
        self.loss_scale.assign(tf.where(grown, self.loss_scale * 2.0, self.loss_scale))
        self.finite_steps.assign(tf.where(grown, 0, count))
        return tf.constant(0)

    def _halve_scale(self) -> tf.Tensor:
        self.loss_scale.assign(tf.maximum(self.loss_scale / 2.0, 1.0))
        self.finite_steps.assign(0)
        return tf.constant(0)
