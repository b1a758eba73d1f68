"""The steps of a run: its network and its loop, with the learning rates, timed and watched."""

from collections.abc import Callable

import tensorflow as tf

from trainer.data.rank_data import DATA_ERRORS, RankData
from trainer.diagnostics.device import device_name, peak_flops
from trainer.distributed.communicator import Communicator
from trainer.distributed.watchdog import Watchdog
from trainer.model.resnet import build_resnet, training_flops_per_image
from trainer.model.weights import variables_by_name
from trainer.training.loop import Loop, LoopReport
from trainer.training.metrics import Interval, Phase, Totals
from trainer.training.optimizer import Momentum
from trainer.training.setup import RunSetup


class Stepper:
    """Takes the steps of one attempt of a run.

    Args:
        setup: the run.
        communicator: the ranks.
        rank_data: what this rank trains on.
        totals: of the run, to be added to.
        watchdog: told of every step.
    """

    def __init__(
        self,
        setup: RunSetup,
        communicator: Communicator,
        rank_data: RankData,
        totals: Totals,
        watchdog: Watchdog,
    ) -> None:
        config, data_set = setup.config, setup.data_set
        self._plan, self._rank_data = setup.plan, rank_data
        self._totals, self._watchdog = totals, watchdog
        precision = config.compute.precision
        self.model = build_resnet(config.model, data_set.classes, precision, config.seed)
        self._optimizer = Momentum(self.model.trainable_variables, config.optimizer)
        self.loop = Loop(
            self.model,
            self._optimizer,
            communicator,
            data_set.normalization,
            config,
            setup.plan.global_batch,
            rank_data.next_batch,
        )
        self._interval = Interval(communicator.size)
        self._flops = training_flops_per_image(self.model)
        self._peak = peak_flops(device_name(), precision)
        self._scaled = precision == "mixed_float16"

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Every variable that decides the future, by name."""
        return {**variables_by_name(self.model), **self._optimizer.state, **self.loop.state}

    def take(
        self, step: int, count: int, phase: Phase, tick: Callable[[int], None]
    ) -> tuple[LoopReport, float]:
        """Take steps.

        Args:
            step: steps done.
            count: how many to take at most.
            phase: what their time counts for: "compile" or "train".
            tick: called with the steps done, again and again while they are taken.

        Returns:
            What they did, and their seconds.

        Raises:
            DataError: an image cannot be read; names it.
        """
        schedule, timer = self._plan.schedule, self._totals.timer
        rates = [schedule.learning_rate(step + ahead) for ahead in range(count)]
        before = timer.seconds(phase)
        try:
            with timer.phase(phase):
                report = self.loop.run(rates, tick, step)
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
        """Metrics of the steps since the last summary."""
        values = self._interval.summary(self._flops, self._peak)
        self._interval.reset()
        values["learning_rate"] = self._plan.schedule.learning_rate(step - 1)
        if self._scaled:
            values["loss_scale"] = float(self.loop.loss_scale.numpy())
        return values

    def rewind(self, step: int) -> None:
        """Go on from another step, whose variables have been restored."""
        self.loop.rewind(step)
        self._interval.reset()
