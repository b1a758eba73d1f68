"""The steps of a run: the loop over its network, with learning rates, timing and the watchdog."""

import os
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.divided import DividedState
from trainer.checkpoints.format import Array
from trainer.data.rank_data import DATA_ERRORS, RankData
from trainer.diagnostics.device import device_name, peak_flops, stage_devices
from trainer.diagnostics.killed_rank import KilledRank
from trainer.distributed.communicator import Communicator
from trainer.distributed.watchdog import Watchdog
from trainer.divided.classification import DividedClassification
from trainer.divided.head import DividedHead
from trainer.divided.stages import build_divided
from trainer.errors import CheckpointError
from trainer.model.build import build_model
from trainer.model.flops import training_flops_per_image
from trainer.model.initial_weights import load_initial_weights
from trainer.model.weights import variables_by_name
from trainer.tasks.task import Task
from trainer.training.loop import Loop, LoopReport
from trainer.training.metrics import Interval, Phase, Totals
from trainer.training.setup import RunSetup
from trainer.updates.optimizer import Optimizer, build_optimizer
from trainer.updates.sharded_optimizer import ShardedOptimizer


class Stepper:
    """Takes the steps of one attempt of a run.

    Args:
        setup: Set-up of the run.
        task: What is trained.
        communicator: World of ranks.
        rank_data: Data of this rank.
        totals: Totals of the run, which the steps are added to.
        watchdog: Watchdog to notify of every step.
    """

    def __init__(
        self,
        setup: RunSetup,
        task: Task,
        communicator: Communicator,
        rank_data: RankData,
        totals: Totals,
        watchdog: Watchdog,
    ) -> None:
        config = setup.config
        self._plan, self._rank_data = setup.plan, rank_data
        self._totals, self._watchdog, self._folder = totals, watchdog, setup.folder
        self._killed = KilledRank(os.environ, communicator.rank)
        precision, stages = config.compute.precision, config.model.stages
        self.model, head = _network(setup, communicator)
        self.task = DividedClassification(head) if head else task
        """What is trained, by this network."""
        self.divided: list[DividedState] = []
        """What the ranks hold in parts."""
        variables = self.model.trainable_variables
        self._optimizer: Optimizer
        if config.optimizer.sharded and communicator.size > 1:
            self._optimizer = sharded = ShardedOptimizer(variables, config.optimizer, communicator)
            self.divided.append(sharded)
        else:
            total = head.total if head else tf.identity
            self._optimizer = build_optimizer(variables, config.optimizer, total)
        self.loop = Loop(
            self.task,
            self.model,
            self._optimizer,
            communicator,
            setup.data_set.normalization,
            config,
            setup.plan.global_batch,
            rank_data.next_batch,
            len(head.trained) if head else 0,
        )
        self._parts: AbstractSet[str] = frozenset()
        if head is not None:
            parts = head.state(self._variables)
            self._parts = parts.names
            self.divided.append(parts)
        self._interval = Interval(communicator.size, task.description.training.key)
        self._flops = training_flops_per_image(self.model)
        self._flops += head.flops_of_others if head else 0.0
        peak = peak_flops(device_name(), precision)
        self._peak = peak and peak * stages
        self._scaled, self._averaged = precision == "mixed_float16", False

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Every variable that affects the rest of the training and is the same on all ranks, by
        name.
        """
        return {
            name: variable for name, variable in self._variables.items() if name not in self._parts
        }

    @property
    def weights(self) -> Mapping[str, tf.Variable | Array]:
        """Weights of the whole network by name, for rank 0 to export; if it is divided, those of
        the newest checkpoint, with other tensors.
        """
        if not self._parts:
            return variables_by_name(self.model)
        checkpoint = self._folder.checkpoints.newest()
        if checkpoint is None:
            raise CheckpointError(f"{self._folder.path}: has no checkpoint to export")
        return checkpoint.load()

    @property
    def _variables(self) -> dict[str, tf.Variable]:
        return {**variables_by_name(self.model), **self._optimizer.state, **self.loop.state}

    def phase(self, step: int) -> Phase:
        """Return the phase of the next steps: "compile" if TensorFlow has not traced them yet."""
        return "train" if self._plan.sums(step) or self._averaged else "compile"

    def take(
        self, step: int, count: int, phase: Phase, tick: Callable[[int], None]
    ) -> tuple[LoopReport, float]:
        """Take steps.

        Args:
            step: Steps done.
            count: Most steps to take.
            phase: Phase that their time is added to: "compile" or "train".
            tick: Called repeatedly with the steps done while they are taken.

        Returns:
            The report of the loop, and the seconds that it took.

        Raises:
            DataError: An image cannot be read; names the image.
        """
        self._killed.at(step)
        schedule, timer = self._plan.schedule, self._totals.timer
        rates = [schedule.learning_rate(step + ahead) for ahead in range(count)]
        averages = None
        if not self._plan.sums(step):
            ends = range(step + 1, step + count + 1)
            averages = [self._plan.next_exchange(end) == end for end in ends]
            self._averaged = True
        before = timer.seconds(phase)
        try:
            with timer.phase(phase):
                report = self.loop.run(rates, tick, step, averages)
        except DATA_ERRORS as error:
            position = self._totals.position(int(self.loop.step.numpy()))
            self._rank_data.explain_training(error, position)
            raise
        finally:
            self._watchdog.beat(int(self.loop.step.numpy()), arrived=False)
        seconds = timer.seconds(phase) - before
        images = report.steps * self._plan.global_batch
        if phase == "train":
            self._totals.timed_images += images
        self._interval.add(report, seconds if phase == "train" else None, images)
        return report, seconds

    def summary(self, step: int) -> dict[str, float]:
        """Return the metrics of the steps since the last summary."""
        values = self._interval.summary(self._flops, self._peak)
        self._interval.reset()
        values["learning_rate"] = self._plan.schedule.learning_rate(step - 1)
        if self._scaled:
            values["loss_scale"] = float(self.loop.loss_scale.numpy())
        return values

    def rewind(self, step: int) -> None:
        """Continue from another step, whose variables have been restored."""
        self.loop.rewind(step)
        self._interval.reset()


def _network(setup: RunSetup, communicator: Communicator) -> tuple[keras.Model, DividedHead | None]:
    """Build the network of a run with its initial weights, divided as the configuration asks;
    return it with the last layer that it shares with other ranks, if there is one.
    """
    config, classes = setup.config, setup.data_set.classes // setup.config.model.head_groups

    def build() -> keras.Model:
        return build_model(
            config.model, classes, config.compute.precision, config.seed, config.task
        )

    stages, head = config.model.stages, None
    if stages > 1:
        model = build_divided(build, stage_devices(stages), config.model.image_size)
    else:
        model = build()
    if config.model.head_groups > 1:
        head = DividedHead(model, communicator)
        model = head.network
        head.initialize()
    # Rank 0's variables are sent to the others in any case.
    file = config.model.weights if communicator.rank == 0 else None
    # Verified, because a run whose checkpoints are all damaged starts again.
    if file is not None and setup.folder.checkpoints.newest() is None:
        print(load_initial_weights(model, Path(file), keep_head=head is not None), flush=True)
    return model, head
