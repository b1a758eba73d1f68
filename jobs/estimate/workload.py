"""What a run asks of its nodes, and how many epochs it needs at a global batch. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log2
from typing import Final

from common.errors import ConfigError
from jobs import throughput
from jobs.estimate.published import RESNETS
from trainer.config import TrainConfig
from trainer.presets import EXPECTATIONS

IMAGENET_IMAGES: Final = 1_281_167
IMAGENET_GB: Final = 147.0
"""Size of its training images as published, in GB: 115 KB an image."""

EPOCHS_TO_TARGET: Final[Mapping[int, int]] = {
    1_632: 35,
    2_048: 38,
    3_264: 35,
    4_096: 40,
    8_192: 42,
    13_056: 45,
    32_768: 56,
    64_480: 86,
    65_536: 85,
}
"""Median epochs until 75.9 % top-1 by global batch, all with LARS."""
EPOCHS_SOURCE: Final = (
    "MLPerf's reference convergence points for ResNet-50 (mlcommons/logging,"
    " mlperf_logging/rcp_checker/training_1.1.0/rcps_resnet.json, Training 1.1 of 2021)"
)
_TF32: Final = {"A100", "A30", "H100", "H100 NVL", "H200"}
"""GPUs on which TensorFlow computes float32 convolutions as TF32."""


@dataclass(frozen=True)
class Workload:
    """A run, as far as throughput and cost depend on it."""

    config: TrainConfig
    """Its configuration, of a network in `RESNETS`."""
    images: int
    """Images of an epoch."""
    gigabytes: float
    """Size of the data set in GB (1e9 bytes)."""

    def __post_init__(self) -> None:
        if self.model not in RESNETS:
            raise ConfigError(
                [
                    f"--model: throughput is known of {', '.join(RESNETS)} at 224 pixels alone, not"
                    f" of {self.model}; measure it first (docs/plan.md)"
                ]
            )

    @property
    def model(self) -> str:
        """Network as measurements call it."""
        return throughput.model_name(self.config)

    @property
    def batch_per_gpu(self) -> int:
        """Images of a GPU in each update, over all of its micro-batches."""
        return self.config.batch_size

    @property
    def recipe_batch(self) -> int | None:
        """Global batch that the recipe is for; None if it scales with the batch."""
        expected = EXPECTATIONS.get(self.config.preset)
        return expected.global_batch if expected else None

    @property
    def bytes_per_image(self) -> float:
        return self.gigabytes * 1e9 / self.images

    @property
    def software(self) -> str:
        """Kind of software, as measurements call it."""
        return "TensorFlow with XLA" if self.config.compute.xla else "TensorFlow"

    def __str__(self) -> str:
        """Return the run in a line."""
        network = f"{self.model}, {self.config.compute.precision}, {self.software}"
        data = f"{self.images:,} images ({self.gigabytes:g} GB), {self.config.epochs:g} epochs"
        return f"{network}: {data}, {self.batch_per_gpu} images a GPU"

    def precision_on(self, gpu: str) -> str:
        """Return how measurements call the precision on a type of GPU."""
        if self.config.compute.precision == "mixed_float16":
            return "amp"
        if self.config.compute.precision == "mixed_bfloat16":
            # Nothing that was published is known to have been measured with it.
            return "bf16"
        return "tf32" if gpu in _TF32 else "fp32"

    def checkpoint_hours(self, images_per_s: float) -> float:
        """Return the hours between two checkpoints; infinite if none are saved."""
        saved, epoch = self.config.checkpoint, self.images / images_per_s / 3600
        due = [saved.every_epochs * epoch, saved.every_minutes / 60]
        return min((hours for hours in due if hours), default=inf)

    def epochs_at(self, global_batch: int) -> float | None:
        """Return the epochs to the same target at a global batch.

        The recipe's epochs grow as MLPerf's do from the recipe's batch to this one. They never
        shrink, so that a small batch is not credited with epochs that were never measured.

        Returns:
            None beyond the largest batch that MLPerf has a reference point for.
        """
        reached, own = epochs_to_target(global_batch), epochs_to_target(self.recipe_batch or 0)
        if reached is None or own is None:
            return None
        return self.config.epochs * max(reached / own, 1.0)


def epochs_to_target(global_batch: int) -> float | None:
    """Return MLPerf's epochs at a global batch, interpolated over its logarithm.

    A point with more epochs than a larger batch counts as many as the larger one, as a larger batch
    needs no fewer epochs. Below the smallest point the value is that of the smallest.

    Returns:
        None beyond the largest point.
    """
    points = {
        batch: min(epochs for other, epochs in EPOCHS_TO_TARGET.items() if other >= batch)
        for batch in sorted(EPOCHS_TO_TARGET)
    }
    if global_batch > max(points):
        return None
    for (below, few), (above, many) in pairwise(points.items()):
        if global_batch <= above:
            part = log2(max(global_batch, below) / below) / log2(above / below)
            return few + (many - few) * part
    raise AssertionError(global_batch)
