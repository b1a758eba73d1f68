"""Overhead of our training loop, compared with bare ones, in worlds of ranks.

All contenders take the same steps: the same network, batch, loss, reduction and update. The bare
ones omit the rest of a run: timing of the data, sums of loss and accuracy, the check for finite
numbers, heartbeat, stop flag, and the metrics file that Python appends to.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import tensorflow as tf
import tf_keras as keras

from common.text import plural
from tools.benchmarks.measure import BenchmarkOptions, ratio, read_samples, table, take_turns
from tools.benchmarks.processes import in_world, join_world
from tools.benchmarks.training.given_network import GivenNetwork, make_loop
from trainer.config import DataConfig, Positive, TrainConfig
from trainer.data.manifest import Normalization
from trainer.data.rank_data import synthetic_batch
from trainer.distributed.communicator import Communicator
from trainer.distributed.horovod import Horovod
from trainer.leaves import TASKS
from trainer.tasks.classification.task import Classification
from trainer.training.metrics import Interval
from trainer.training.reporter import Reporter
from trainer.training.setup import run_name, set_up
from trainer.updates.gradients import MicroBatchGradients, Sums
from trainer.updates.optimizer import Optimizer
from trainer.updates.strategy import Strategy

OURS, BARE_LOOP, CALLS = "our loop", "bare in-graph loop", "tf.function a step"
GOALS: Final = {BARE_LOOP: 1.10, CALLS: 0.70}
"""Largest acceptable ratios of our CPU time to that of other loops."""
LAYERS, WIDTH, PIXELS, CLASSES = 20, 32, 8, 10
BATCH = 8
RATE = 1e-3
NORMALIZATION = Normalization((127.5,) * 3, (73.9,) * 3)


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of a step on a network of 20 small dense layers: our loop, a bare loop
    inside the graph, and one tf.function call a step.
    """

    ranks: Annotated[tuple[int, ...], Positive] = (1, 2)
    """World sizes to measure, one after the other."""

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    steps: Annotated[int, Positive] = 1000
    """Steps per turn."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the loop in worlds of each size."""
    arguments = {"rounds": options.rounds, "steps": options.steps}
    worlds = {
        ranks: in_world("tools.benchmarks.training.loop:take_turns_in_world", ranks, **arguments)[
            "samples"
        ]
        for ranks in options.ranks
    }
    return {"worlds": worlds}


def goals(data: Mapping[str, Any]) -> str:
    """Compare the ratios with the goals."""
    return "\n".join(
        f"{plural(int(ranks), 'rank')}: our loop / {other}"
        f" {ratio(read_samples(rounds), OURS, other).text()}; the goal is at most {goal:.2f}"
        for ranks, rounds in data["worlds"].items()
        for other, goal in GOALS.items()
    )


def show(data: Mapping[str, Any]) -> str:
    """Format a table for each world size."""
    parts = []
    for ranks, rounds in data["worlds"].items():
        samples = read_samples(rounds)
        parts += [f"{plural(int(ranks), 'rank')}:", table(samples, "step", [BARE_LOOP, CALLS])]
    return "\n\n".join(parts)


def take_turns_in_world(rounds: int, steps: int) -> dict[str, Any]:
    """Measure the contenders in turns, in the world of this rank.

    Args:
        rounds: Number of turns of each contender.
        steps: Steps per turn.
    """
    world = join_world()
    with tempfile.TemporaryDirectory() as folder:
        samples = take_turns(contenders(world, Path(folder), steps), rounds, world)
    world.shutdown()
    return {"samples": samples}


def contenders(world: Communicator, folder: Path, steps: int) -> dict[str, Callable[[], int]]:
    """Return three contenders that take the same steps.

    Args:
        world: World of ranks.
        folder: Folder of our loop's metrics.
        steps: Steps per turn.
    """
    model = dense_network()
    config = TrainConfig(
        preset="synthetic",
        name="loop",
        runs_dir=str(folder),
        batch_size=BATCH,
        data=DataConfig(source="synthetic"),
    )
    strategy = GivenNetwork(model, config, world)
    data = tf.data.Dataset.from_tensors(
        synthetic_batch(BATCH, PIXELS, CLASSES, seed=world.rank)
    ).repeat()
    task = Classification(CLASSES)
    compute = MicroBatchGradients(
        task, model, NORMALIZATION, config, BATCH * world.size, strategy.tape
    )
    local = partial(strategy.gradients, compute)
    bare = Bare(local, strategy.optimizer, world, iter(data), config.compute.steps_per_loop)
    ours = Ours(strategy, world, config, iter(data))
    return {
        OURS: lambda: ours.take(steps),
        BARE_LOOP: lambda: bare.in_graph(steps),
        CALLS: lambda: bare.one_call_a_step(steps),
    }


def dense_network() -> keras.Model:
    """Build a network of 20 dense layers, 40 variables."""
    image = x = keras.Input([PIXELS, PIXELS, 3])
    x = keras.layers.Flatten()(x)
    for _ in range(LAYERS - 1):
        x = keras.layers.Dense(WIDTH, activation="relu")(x)
    return keras.Model(image, keras.layers.Dense(CLASSES)(x))


class Ours:
    """The shipped loop with the reports of a run: metrics to a file and TensorBoard."""

    def __init__(
        self,
        strategy: Strategy,
        world: Communicator,
        config: TrainConfig,
        iterator: Any,
    ) -> None:
        setup = set_up(config, world.size, run_name(config))
        self._config, self._global_batch = config, setup.plan.global_batch
        self._loop = make_loop(strategy, config, world, NORMALIZATION, lambda: next(iterator))
        self._reporter = Reporter(setup, chief=world.rank == 0)
        self._reporter.open(0, {})
        self._interval = Interval(world.size, TASKS["classification"].training.key)

    def take(self, steps: int) -> int:
        """Take steps in calls of `steps_per_loop`, and report once per call."""
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            return self._take(steps)

    def _take(self, steps: int) -> int:
        left = steps
        while left:
            count = min(left, self._config.compute.steps_per_loop)
            report = self._loop.run([RATE] * count, self._reporter.console.progress)
            assert report.steps == count, report
            self._interval.add(report, 1.0, count * self._global_batch)
            values = self._interval.summary(self._interval.plain_loss, 1.0, None)
            self._interval.reset()
            self._reporter.training(int(self._loop.step.numpy()), values)
            left -= count
        return steps


class Bare:
    """The arithmetic of a step and nothing else, inside the graph or called from Python."""

    def __init__(
        self,
        local: Callable[..., Sums],
        optimizer: Optimizer,
        world: Communicator,
        iterator: Any,
        steps_per_loop: int,
    ) -> None:
        self._local, self._optimizer, self._world = local, optimizer, world
        self._iterator, self._steps_per_loop = iterator, steps_per_loop
        self._step_graph = tf.function(self._step, autograph=False)
        self._loop_graph = tf.function(self._loop, autograph=False)

    def in_graph(self, steps: int) -> int:
        """Take as many steps per call as our loop."""
        left = steps
        while left:
            count = min(left, self._steps_per_loop)
            self._loop_graph(tf.fill([count], RATE)).numpy()
            left -= count
        return steps

    def one_call_a_step(self, steps: int) -> int:
        """Take every step by a call from Python."""
        rate, loss = tf.constant(RATE), tf.constant(0.0)
        for _ in range(steps):
            loss = self._step_graph(rate)
        loss.numpy()
        return steps

    def _step(self, rate: tf.Tensor) -> tf.Tensor:
        gradients, sums = self._local(next(self._iterator), tf.constant(1.0))
        if isinstance(self._world, Horovod):
            hvd = self._world.module
            gradients = hvd.grouped_allreduce(gradients, op=hvd.Sum, name="bare")
        self._optimizer.apply(gradients, rate)
        return sums[0]

    def _loop(self, rates: tf.Tensor) -> tf.Tensor:
        def body(number: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, self._step(rates[number])

        count = tf.shape(rates)[0]
        start = (tf.constant(0), tf.constant(0.0))
        return tf.while_loop(lambda n, _: n < count, body, start, parallel_iterations=1)[1]
