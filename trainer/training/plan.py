"""The numbers that follow from a configuration, a world size and a data set. Pure."""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Literal

from common.errors import ConfigError
from common.text import plural
from trainer.config import TrainConfig
from trainer.leaf import StrategyDescription
from trainer.leaves import EMBEDDED

EMBEDDED_EXAMPLES = {source: embedded.examples for source, embedded in EMBEDDED.items()}
"""Training images of the embedded data sets, which a run may not have written yet, by source."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate: a function of the step, a linear rise to `peak` and a decay.
    All lengths are in steps and may be fractions.
    """

    peak: float
    warmup_steps: float
    total_steps: int
    kind: Literal["cosine", "step", "polynomial"]
    decay_steps: tuple[float, ...] = ()
    decay_factor: float = 0.1
    end: float = 0.0
    """Rate that `polynomial` reaches one step after the last."""

    def learning_rate(self, step: int) -> float:
        """The rate of the update that follows `step` earlier ones.

        Counted from one, so that neither the first nor the last update has a rate of zero: the rise
        passes through (0, 0) and reaches the peak at `warmup_steps`; cosine and polynomial start
        there and reach zero or `end` one step after the last.
        """
        update = step + 1
        # 1. Warm-up (Goyal et al. 2017, section 2.2).
        if update < self.warmup_steps:
            return self.peak * update / self.warmup_steps
        # 2. A factor at each of the given steps.
        if self.kind == "step":
            return self.peak * self.decay_factor ** sum(step >= at for at in self.decay_steps)
        length = self.total_steps + 1 - self.warmup_steps
        progress = min((update - self.warmup_steps) / length, 1.0)
        # 3. Or half a cosine from the peak to zero (Loshchilov and Hutter 2016).
        if self.kind == "cosine":
            return self.peak * 0.5 * (1.0 + math.cos(math.pi * progress))
        # 4. Or a polynomial of power 2, MLPerf's schedule for LARS (PolySchedule in common/fit.py
        # of NVIDIA's implementation in MXNet, Training results v1.1).
        return self.end + (self.peak - self.end) * (1.0 - progress) ** 2

    @property
    def steps_at_small_rate(self) -> int:
        """Steps after the last one whose rate is at least half of the peak."""
        # After the warm-up the rate never rises.
        begin = min(math.ceil(self.warmup_steps), self.total_steps)
        steps = range(begin, self.total_steps)
        return len(steps) - bisect_left(
            steps, True, key=lambda step: self.learning_rate(step) < 0.5 * self.peak
        )


@dataclass(frozen=True)
class Plan:
    """Sizes and lengths of a run; the same on every rank."""

    ranks: int
    global_batch: int
    """Images per step, over all ranks."""
    examples: int
    """Images in the training split."""
    epochs: int
    total_steps: int
    """Steps in which every image is seen `epochs` times; the last one may begin another epoch."""
    last_step: int
    """Steps of this run: `total_steps`, or `max_steps` if that is fewer; always one after which all
    ranks are equal."""
    schedule: Schedule
    strategy: StrategyDescription

    def equal_after(self, step: int) -> int:
        """Return the smallest number of steps, at least `step`, after which all ranks are equal."""
        return self.strategy.equal_after(step, self.total_steps)

    def epoch_end(self, epoch: int) -> int:
        """Steps after which `epoch` epochs are complete, never fewer than their images need.

        An epoch is a number of images, not of steps: step t takes the positions [t B, (t + 1) B)
        of an endless sequence in which each stretch of `examples` positions is one permutation of
        the data. So every image is seen exactly once an epoch, no batch is partial, and every rank
        takes the same steps.
        """
        return math.ceil(epoch * self.examples / self.global_batch)

    def epoch_of(self, step: int) -> float:
        """Return the epochs done after `step` steps."""
        return step * self.global_batch / self.examples


def passed(every: int, step: int, taken: int) -> bool:
    """Return whether the last steps include one that is due.

    Args:
        every: Steps between two that are due; 0 if none is.
        step: Steps done.
        taken: How many of them were the last.
    """
    return every > 0 and step // every > (step - taken) // every


def make_plan(config: TrainConfig, ranks: int, examples: int, classes: int | None = None) -> Plan:
    """Derive the sizes, lengths and schedule of a run.

    Args:
        config: Configuration of the run.
        ranks: World size.
        examples: Images in the training split.
        classes: Classes of the data set, if they are known.

    Raises:
        ConfigError: The data set is smaller than one global batch, or the end of the learning rate
            is above its peak, or the ranks or classes do not fit the configuration.
    """
    problems = config.misfits(ranks, classes)
    if problems:
        raise ConfigError(problems)
    batches = config.strategy.batches(ranks)
    batch = config.batch_size * batches
    if examples < batch:
        raise ConfigError(
            [
                f"--batch-size: {plural(batches, 'rank')} x {config.batch_size} make a global batch"
                f" of {batch}, but the data set has {examples} training images; make the batch"
                " smaller"
            ]
        )
    optimizer = config.optimizer
    total = math.ceil(config.epochs * examples / batch)
    per_epoch = examples / batch
    scale = batch / 256 if optimizer.rate_scaling == "linear" else 1.0
    peak = optimizer.learning_rate * scale
    if optimizer.schedule == "polynomial" and optimizer.end_rate > peak:
        raise ConfigError(
            [
                f"--optimizer.end-rate: {optimizer.end_rate:g} is above the peak rate of {peak:g};"
                " make it smaller"
            ]
        )
    schedule = Schedule(
        peak=peak,
        warmup_steps=optimizer.warmup_epochs * per_epoch,
        total_steps=total,
        kind=optimizer.schedule,
        decay_steps=tuple(epoch * per_epoch for epoch in optimizer.decay_epochs),
        decay_factor=optimizer.decay_factor,
        end=optimizer.end_rate,
    )
    plan = Plan(ranks, batch, examples, config.epochs, total, total, schedule, config.strategy)
    if config.max_steps is None or config.max_steps >= total:
        return plan
    return replace(plan, last_step=plan.equal_after(config.max_steps))


MOST_OUTDATED = 0.01
"""Largest share of weights' early statistics in batch norm's running ones without a warning."""


def batch_norm_warning(schedule: Schedule, momentum: float) -> str | None:
    """Return a warning if a run is too short for batch norm's running statistics to follow.

    A step keeps the fraction `momentum` of the statistics that evaluation uses. So after n steps,
    momentum^n, about exp(-n (1 - momentum)), of them dates from before those steps. At a large rate
    weights change fast, and their statistics soon fit no more: the rule is that of those from
    before the rate fell below half its peak for good, at most 1 % may remain. That takes n (1 -
    momentum) of about 4.6: 44 steps at 0.9, and 7 at 0.5. A run that `max_steps` shortens is judged
    by its whole schedule, because it is a trial.

    Args:
        schedule: Schedule of the run.
        momentum: Momentum of batch norm's running statistics, at least 0 and below 1.
    """
    steps = schedule.steps_at_small_rate
    outdated = momentum**steps if momentum else 0.0
    if outdated <= MOST_OUTDATED:
        return None
    if not steps:
        return (
            "--optimizer.schedule: the learning rate never falls below half its peak, so batch"
            " norm's statistics may lag behind the weights; add a decay before --epochs, or lower"
            " --model.batch-norm-momentum"
        )
    fits = math.floor(100 * MOST_OUTDATED ** (1 / steps)) / 100
    return (
        f"--model.batch-norm-momentum: {momentum:g} keeps {outdated:.0%} of batch norm's statistics"
        f" from before the last {plural(steps, 'step')}, in which the learning rate is below half"
        f" its peak, so evaluations may be worse than the weights; use {fits:g}, a smaller batch,"
        " or more epochs"
    )
