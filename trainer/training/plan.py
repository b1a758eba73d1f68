"""The numbers that follow from a configuration, a world size and a data set. Pure."""

import math
from dataclasses import dataclass
from typing import Literal

from common.errors import ConfigError
from trainer.config import TrainConfig

DIGITS_EXAMPLES = 1437
"""Training images of the embedded data set, which a run may not have written yet."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate: one continuous function of the step, a linear rise to `peak` and a decay.
    All lengths are in steps and may be fractions.
    """

    peak: float
    warmup_steps: float
    total_steps: int
    kind: Literal["cosine", "step"]
    decay_steps: tuple[float, ...] = ()
    decay_factor: float = 0.1

    def learning_rate(self, step: int) -> float:
        """The rate of the update that follows `step` earlier ones.

        Counted from one, so that neither the first nor the last update has a rate of zero: the rise
        passes through (0, 0) and reaches the peak at `warmup_steps`; the cosine starts there and
        reaches zero one step after the last.
        """
        update = step + 1
        # 1. Warm-up (Goyal et al. 2017, section 2.2).
        if update < self.warmup_steps:
            return self.peak * update / self.warmup_steps
        # 2. Half a cosine from the peak to zero (Loshchilov and Hutter 2016).
        if self.kind == "cosine":
            length = self.total_steps + 1 - self.warmup_steps
            progress = min((update - self.warmup_steps) / length, 1.0)
            return self.peak * 0.5 * (1.0 + math.cos(math.pi * progress))
        # 3. Or a factor at each of the given steps.
        return self.peak * self.decay_factor ** sum(step >= at for at in self.decay_steps)


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
    """Steps of this run: `total_steps`, or `max_steps` if that is fewer."""
    schedule: Schedule

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


def make_plan(config: TrainConfig, ranks: int, examples: int) -> Plan:
    """Derive the sizes, lengths and schedule of a run.

    Args:
        config: Configuration of the run.
        ranks: World size.
        examples: Images in the training split.

    Raises:
        ConfigError: The data set is smaller than one global batch.
    """
    batch = config.batch_size * ranks
    if examples < batch:
        raise ConfigError(
            [
                f"--batch-size: {ranks} ranks x {config.batch_size} make a global batch of {batch},"
                f" but the data set has {examples} training images; make the batch smaller"
            ]
        )
    optimizer = config.optimizer
    total = math.ceil(config.epochs * examples / batch)
    per_epoch = examples / batch
    schedule = Schedule(
        peak=optimizer.learning_rate * batch / 256,
        warmup_steps=optimizer.warmup_epochs * per_epoch,
        total_steps=total,
        kind=optimizer.schedule,
        decay_steps=tuple(epoch * per_epoch for epoch in optimizer.decay_epochs),
        decay_factor=optimizer.decay_factor,
    )
    last = total if config.max_steps is None else min(total, config.max_steps)
    return Plan(ranks, batch, examples, config.epochs, total, last, schedule)
