"""The training loop.

    Python asks for up to `steps_per_loop` steps; then, inside the graph, for each of them:
        take a batch                        (time spent waiting is added up)
        normalise, forward, backward        compiled as one function; see `Strategy.gradients`
        exchange, check and update          see `Strategy.update`
        count the step                      the heartbeat
        leave if any rank asked for it      so every rank leaves after the same step

The graph of a step of data parallel on digits is built by this file and eleven others of
`trainer/`: data/rank_data.py (the batch); updates/strategy.py and updates/gradients.py (the calls
and their order); data/images.py, updates/mixing.py, model/randomness.py, tasks/task.py and
tasks/classification/task.py (from pixels to the loss); updates/loss_scale.py;
distributed/horovod.py (the exchange); updates/optimizer.py (the update). The network, such as that
of `model.resnet`, exists before. `data.pipeline` reads and decodes ahead of the steps. The learning
rates come from Python: `training.plan` computes them, and `Stepper.take` passes them to `Loop.run`.

The state that Python watches while the graph runs (step, requests to leave) lives in variables that
every step reads and writes, so neither a request nor the heartbeat waits for the end of a call.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.distributed.communicator import Communicator
from trainer.model.layers import moving_statistics
from trainer.model.randomness import is_random
from trainer.tasks.task import Task
from trainer.updates.gradients import MicroBatchGradients
from trainer.updates.strategy import SUMS, LocalStep, StepPlace, Strategy

_TOTALS = (*SUMS, "wait", "skipped", "bad", "local_loss", "plain")
"""Values added up over the steps of a call; `SUMS` are over all ranks, the others of this rank."""


@dataclass(frozen=True)
class LoopReport:
    """Result of one call from Python, over all ranks."""

    steps: int
    loss: float
    """Mean loss over the images that count."""
    score: float
    """The task's training metric, as a mean over the images that count, 0 to 1."""
    plain_loss: float
    """Sum over this rank's images that count of the loss without smoothing and weights."""
    images: int
    """Images that counted."""
    gradient_norm: float
    """Gradient norm of the last step, after unscaling; of this rank's own gradients if it updates
    alone."""
    wait_seconds: float
    """Seconds that this rank waited for data."""
    skipped_steps: int
    """Steps left out because gradients overflowed float16; counted over ranks if a rank updates
    alone."""
    stopped: bool
    """Whether the ranks agreed to stop."""
    paused: bool
    """Whether the ranks agreed to return to Python."""
    bad_step: int | None
    """The step, counted from 0, whose loss or gradient was not finite, if that ended the loop; it
    counts as done."""


class Loop:
    """The compiled loop and the state of a run that is not in the strategy."""

    def __init__(
        self,
        task: Task,
        strategy: Strategy,
        communicator: Communicator,
        normalization: Normalization,
        config: TrainConfig,
        next_batch: Callable[[], dict[str, Any]],
    ) -> None:
        """Args:
        task: Loss and training metric of the network on this rank.
        strategy: Network and state, and how they are updated.
        communicator: World of ranks.
        normalization: Normalization of the images.
        config: Configuration of the run.
        next_batch: Returns this rank's next batch; called inside a graph.
        """
        self._strategy, self._communicator = strategy, communicator
        self._loss_scale = strategy.loss_scale
        self._global_batch = config.batch_size * config.strategy.batches(communicator.size)
        self._next_batch = next_batch
        self._deterministic = config.compute.deterministic
        self._on_gpu = bool(tf.config.get_visible_devices("GPU"))
        model = strategy.model
        self._weights, self._moving = model.trainable_variables, moving_statistics(model)
        self._random = is_random(model)
        with tf.device("CPU:0"):
            self.step = tf.Variable(0, dtype=tf.int64, name="step")
            self._stop = tf.Variable(0.0, name="stop")
            self._pause = tf.Variable(0.0, name="pause")
            self._computed = tf.Variable(0, dtype=tf.int64, name="computed")
        compute = MicroBatchGradients(
            task, model, normalization, config, self._global_batch, strategy.tape
        )
        self._local: Callable[..., Any] = partial(strategy.gradients, compute)
        if strategy.compiles:
            self._local = tf.function(self._local, autograph=False, jit_compile=config.compute.xla)
        rates = tf.TensorSpec([None], tf.float32)
        self._graph = tf.function(self._steps, input_signature=[rates], autograph=False)
        self._local_bad = self._stop_requested = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="loop")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables of the loop that a checkpoint stores, by name."""
        return {"step": self.step, **self._loss_scale.state}

    @property
    def arrived(self) -> bool:
        """Whether this rank has computed its gradients of the current step and waits for those of
        the other ranks.
        """
        return int(self._computed.numpy()) > int(self.step.numpy())

    def request_stop(self) -> None:
        """Ask all ranks to leave the loop after the current step; safe in a signal handler."""
        # A handler may run while Python builds a graph, where no variable can be assigned: `run`
        # passes the request on.
        self._stop_requested = True

    def request_pause(self) -> None:
        """Have the current call return on all ranks after the current step; not for handlers."""
        self._pause.assign(1.0)

    def rewind(self, step: int) -> None:
        """Continue counting from another step, whose variables have been restored."""
        self._computed.assign(step)

    def run(
        self,
        learning_rates: Sequence[float],
        tick: Callable[[int], None],
        around: AbstractContextManager[Any] | None = None,
    ) -> LoopReport:
        """Take one step for each learning rate; all ranks must be equal after the last of them.

        The graph runs in a thread of its own, so that Python handles signals meanwhile.

        Args:
            learning_rates: Learning rate of each step.
            tick: Called about ten times per second with the steps done since the start of training.
            around: Context that the thread enters for the steps.

        Raises:
            tensorflow.errors.OpError: A rank is gone, or the data cannot be read.
        """
        rates = tf.constant(learning_rates, tf.float32)
        self._stop.assign(float(self._stop_requested))
        future: Future[Any] = self._worker.submit(self._call, rates, around or nullcontext())
        while True:
            try:
                totals, norm, steps = future.result(timeout=0.1)
                break
            except NotDone:
                tick(int(self.step.numpy()))
                self._stop.assign(float(self._stop_requested))
        self._pause.assign(0.0)
        values = dict(zip(_TOTALS, totals.numpy().tolist(), strict=True))
        weight = values["weight"]
        self._local_bad = not isfinite(values["local_loss"])
        return LoopReport(
            steps=int(steps.numpy()),
            loss=values["loss"] * self._global_batch / weight if weight else 0.0,
            score=values["score"] / weight if weight else 0.0,
            plain_loss=values["plain"] * self._global_batch,
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

    def _call(self, rates: tf.Tensor, around: AbstractContextManager[Any]) -> tuple[tf.Tensor, ...]:
        with around:
            result: tuple[tf.Tensor, ...] = self._graph(rates)
        return result

    def _steps(self, learning_rates: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Take steps inside the graph; return totals, last gradient norm and number of steps."""
        count = tf.shape(learning_rates)[0]

        def more(number: tf.Tensor, go: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
            return (number < count) & go

        def body(
            number: tf.Tensor, _: tf.Tensor, totals: tf.Tensor, __: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            row, norm, go = self._step(learning_rates[number], tf.equal(number + 1, count))
            return number + 1, go, totals + row, norm

        start = (
            tf.constant(0),
            tf.constant(value=True),
            tf.zeros([len(_TOTALS)], tf.float64),
            tf.constant(0.0),
        )
        # Parallel iterations would have two exchanges of the same name in flight.
        steps, _, totals, norm = tf.while_loop(more, body, start, parallel_iterations=1)
        return totals, norm, steps

    def _step(self, rate: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Take a step; return its `_TOTALS`, its norm, and whether to continue."""
        batch, wait = self._timed_batch()
        before: list[tf.Tensor] = []
        if self._loss_scale.dynamic:
            before = [tf.identity(variable) for variable in self._moving]
        scale, done = self._loss_scale.now(), self.step.read_value()
        # The plain loss is only reported, so it does not lengthen the exchange.
        gradients, (*mine, plain) = self._local(batch, scale, done if self._random else None)
        with tf.control_dependencies(gradients):
            self._computed.assign(done + 1)
        requests = [self._stop.read_value(), self._pause.read_value()]
        local = LocalStep(gradients, [*mine, *requests], scale, before)
        result = self._strategy.update(local, rate, StepPlace(done, last))
        # Otherwise a rank could count the step before it has waited for the others.
        with tf.control_dependencies([result.norm, *result.sums]):
            self.step.assign_add(1)
        row = [*result.sums, wait, result.skipped, tf.cast(result.bad, tf.float32), mine[0], plain]
        # float32 cannot count the images of a long call exactly.
        return tf.cast(tf.stack(row), tf.float64), result.norm, result.go

    def _timed_batch(self) -> tuple[dict[str, Any], tf.Tensor]:
        """Return the next batch, and the seconds spent waiting for it, with its copy to a GPU.

        Operations on a GPU return before they are done, but to read a number from it waits for
        those before: for the previous update at the start, for the copied batch at the end.
        """
        weights = self._weights[-1:] if self._on_gpu else []
        with tf.control_dependencies([_first_number(weight) for weight in weights]):
            start = self._clock()
        with tf.control_dependencies([start]):
            batch = self._next_batch()
        with tf.control_dependencies([_first_number(value) for value in batch.values()]):
            return batch, tf.cast(self._clock() - start, tf.float32)

    def _clock(self) -> tf.Tensor:
        """Return seconds of a clock when the graph gets here, float64 scalar."""
        if not self._deterministic:
            return tf.timestamp()
        # TensorFlow refuses its own clock among deterministic operations.
        return tf.ensure_shape(tf.numpy_function(time.monotonic, [], tf.float64), [])


def _first_number(tensor: tf.Tensor) -> tf.Tensor:
    """Return the first number of a tensor on the CPU."""
    first = tf.reshape(tensor, [-1])[:1]
    with tf.device("CPU:0"):
        return tf.identity(first)
