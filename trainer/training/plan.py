"""The numbers that follow from a configuration, a world size and a data set. Pure."""

from dataclasses import dataclass
from math import ceil

from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.training.schedule import Schedule

DIGITS_EXAMPLES = 1437
"""Training images of the embedded data set, which a run may not have written yet."""


@dataclass(frozen=True)
class Plan:
    """Sizes and lengths of a run; the same on every rank."""

    ranks: int
    global_batch: int
    """Images a step, over all ranks."""
    examples: int
    """Images in the training split."""
    epochs: int
    total_steps: int
    """Steps in which every image is seen `epochs` times; the last may begin one epoch more."""
    last_step: int
    """Steps this run takes: `total_steps`, or `max_steps` if that is fewer."""
    schedule: Schedule

    def epoch_end(self, epoch: int) -> int:
        """Steps after which `epoch` epochs are complete, never fewer than their images need.

        An epoch is a number of images, not of steps: step t takes the positions [t B, (t + 1) B)
        of an endless sequence in which each stretch of `examples` positions is one permutation of
        the data. So every image is seen exactly once an epoch, no batch is partial, and every rank
        takes the same steps.
        """
        return ceil(epoch * self.examples / self.global_batch)

    def epoch_of(self, step: int) -> float:
        """Epochs done after `step` steps."""
        return step * self.global_batch / self.examples


def make_plan(config: TrainConfig, ranks: int, examples: int) -> Plan:
    """Derive a run's numbers.

    Args:
        config: what to train.
        ranks: processes that take part.
        examples: images in the training split.

    Raises:
        ConfigError: the data set is smaller than one global batch.
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
    total = ceil(config.epochs * examples / batch)
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
