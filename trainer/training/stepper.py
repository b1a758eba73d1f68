"""The steps of a run: its strategy and its loop, with learning rates, timing and the
watchdog.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import fsum
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.errors import ConfigError, UserError
from trainer.checkpoints.divided import DividedState
from trainer.checkpoints.format import Array
from trainer.data.rank_data import DATA_ERRORS, RankData
from trainer.diagnostics.device import device_name, gpu_share, peak_flops, peak_memory
from trainer.distributed.communicator import Communicator
from trainer.distributed.watchdog import Watchdog
from trainer.errors import OutOfMemoryError
from trainer.model.flops import training_flops_per_image
from trainer.model.initial_weights import load_initial_weights
from trainer.model.layers import single_value_problem
from trainer.model.weights import variables_by_name
from trainer.tasks.task import Task
from trainer.tasks.weighted import weighted
from trainer.training.loop import Loop, LoopReport
from trainer.training.metrics import Interval, Phase, Totals
from trainer.training.setup import RunSetup, smaller_micro_batches
from trainer.updates.strategy import make_strategy


class Stepper:
    """Takes the steps of one attempt of a run.

    Args:
        setup: Set-up of the run.
        task: The task.
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
        self._config, self._plan, self._rank_data = config, setup.plan, rank_data
        self._world = communicator
        self._result_of = config.result_of
        self._totals, self._watchdog, self._folder = totals, watchdog, setup.folder
        # Read before the first step, because another rank may be out of memory a little earlier.
        self._divided_before = setup.folder.accumulation > 1
        strategy = make_strategy(
            config, setup.data_set.classes, communicator, setup.plan.total_steps
        )
        self.model = strategy.model
        problem = single_value_problem(self.model, config.batch_size, config.optimizer.accumulation)
        if problem is not None:
            raise ConfigError([problem])
        self.task = weighted(strategy.task(task), config, setup.data_set)
        """The task, for this network."""
        # Rank 0's variables are sent to the others in any case.
        file = config.model.weights if communicator.rank == 0 else None
        # `newest` verifies: a run whose checkpoints are all damaged begins anew.
        if file is not None and setup.folder.checkpoints.newest() is None:
            keep = strategy.keeps_last_layer
            print(load_initial_weights(self.model, Path(file), keep_head=keep), flush=True)
        self._loss_scale = strategy.loss_scale
        self.loop = Loop(
            self.task,
            strategy,
            communicator,
            setup.data_set.normalization,
            config,
            rank_data.next_batch,
        )
        variables = {**variables_by_name(self.model), **strategy.state, **self.loop.state}
        self.divided: Sequence[DividedState] = strategy.parts(variables)
        """State that the ranks hold in parts."""
        parts = {name for state in self.divided for name in state.shapes}
        self.state = {name: variable for name, variable in variables.items() if name not in parts}
        """Every variable that affects the rest of the run and is the same on all ranks, by name."""
        self._interval = Interval(communicator.size, task.description.training.key)
        self._flops = training_flops_per_image(self.model) + strategy.more_flops
        peak = peak_flops(device_name(), config.compute.precision)
        self._peak = peak and peak * config.strategy.devices * gpu_share(communicator)

    @property
    def weights(self) -> Mapping[str, tf.Variable | Array]:
        """Weights of the whole network by name, for rank 0 to export; if it is divided over ranks,
        those of the checkpoint that the result is of, with other tensors.
        """
        weights = variables_by_name(self.model)
        if weights.keys() <= self.state.keys():
            return weights
        return self._folder.find_checkpoint(self._result_of).load()

    def take(
        self,
        step: int,
        count: int,
        phase: Phase,
        tick: Callable[[int], None],
        around: AbstractContextManager[Any] | None = None,
    ) -> tuple[LoopReport, float]:
        """Take steps, and as many more as it takes until all ranks are equal.

        Args:
            step: Steps done.
            count: Steps to take.
            phase: Phase that their time is added to: "compile" or "train".
            tick: Called repeatedly with the steps done while they are taken.
            around: Context of the steps; see `Loop.run`.

        Returns:
            The report of the loop, and the seconds that it took.

        Raises:
            DataError: An image cannot be read; names the image.
            OutOfMemoryError: A step does not fit into memory, for the first time in this run.
            UserError: It does not fit although the micro-batches are smaller.
        """
        schedule, timer = self._plan.schedule, self._totals.timer
        end = self._plan.equal_after(step + count)
        rates = [schedule.learning_rate(number) for number in range(step, end)]
        before = timer.seconds(phase)
        try:
            with timer.phase(phase):
                report = self.loop.run(rates, tick, around)
        except tf.errors.ResourceExhaustedError as error:
            raise self._out_of_memory(error) from error
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

    def _out_of_memory(self, error: tf.errors.ResourceExhaustedError) -> UserError:
        """Have the next attempt take smaller micro-batches, once, and return the error of this."""
        config = self._config
        first = str(error.message).partition("\n")[0]
        images, now = config.batch_size, config.optimizer.accumulation
        smaller = (n for n in range(2 * now, images + 1) if not images % n)
        number = next((n for n in smaller if smaller_micro_batches(config, n)), None)
        if number is None or self._divided_before:
            again = ", again," if self._divided_before else ""
            return UserError(
                f"out of memory{again} with micro-batches of {images // now} images ({first});"
                " lower --batch-size, --model.image-size or the size of the network, or take"
                " --compute.precision mixed_float16 or mixed_bfloat16"
            )
        # Every rank that is out of memory comes here.
        if self._folder.accumulation != number:
            self._folder.divide_batches(number)
        return OutOfMemoryError(
            f"out of memory with micro-batches of {images // now} images ({first}). The run"
            " continues with the same global batch when it is started again, in micro-batches of"
            f" {images // number} (--optimizer.accumulation {number}); its result differs slightly"
        )

    def summary(self, step: int) -> dict[str, float]:
        """Return the metrics of the steps since the last summary; all ranks must call it."""
        plain = fsum(self._world.gather(self._interval.plain_loss))
        values = self._interval.summary(plain, self._flops, self._peak)
        self._interval.reset()
        values["learning_rate"] = self._plan.schedule.learning_rate(step - 1)
        if (memory := peak_memory()) is not None:
            values["gpu_memory_gb"] = memory / 1e9
        if self._loss_scale.dynamic:
            values["loss_scale"] = float(self._loss_scale.now().numpy())
        return values

    def rewind(self, step: int) -> None:
        """Continue from another step, whose variables have been restored."""
        self.loop.rewind(step)
        self._interval.reset()
