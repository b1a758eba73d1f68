"""What a training asks of its nodes, and how many epochs it needs at a global batch. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log2
from typing import Final, Literal

from common.errors import ConfigError
from jobs.planning.points import Point
from jobs.planning.scaling import RESNETS
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
    """A training, as far as throughput and cost depend on it."""

    model: str
    """One of `RESNETS`."""
    precision: Literal["float32", "mixed_float16"]
    xla: bool
    images: int
    """Images of an epoch."""
    gigabytes: float
    """Size of the data set in GB (1e9 bytes)."""
    epochs: float
    """Epochs that the recipe has at its own batch."""
    batch_per_gpu: int
    """Images of a GPU in each update, over all of its micro-batches."""
    accumulation: int
    """Micro-batches into which these are divided."""
    image_size: int
    """Height and width of the images in pixels."""
    recipe_batch: int | None
    """Global batch that the recipe is for; None if it scales with the batch."""
    checkpoint_epochs: float
    """Epochs between two checkpoints; 0 does not save by epochs."""
    checkpoint_minutes: float
    """Minutes between two checkpoints; 0 does not save by the clock."""

    @property
    def bytes_per_image(self) -> float:
        return self.gigabytes * 1e9 / self.images

    def as_point(self, size: str) -> Point:
        """Return a point without rates, with the configuration of this training on one node."""
        return Point(
            size=size,
            nodes=1,
            ranks=1,
            model=self.model,
            precision=self.precision,
            batch_per_rank=self.batch_per_gpu,
            image_size=self.image_size,
            rates=(),
            accumulation=self.accumulation,
            xla=self.xla,
        )

    @property
    def software(self) -> str:
        """Kind of software, as measurements call it."""
        return "TensorFlow with XLA" if self.xla else "TensorFlow"

    def precision_on(self, gpu: str) -> str:
        """Return how measurements call the precision on a type of GPU."""
        if self.precision == "mixed_float16":
            return "amp"
        return "tf32" if gpu in _TF32 else "fp32"

    def checkpoint_hours(self, images_per_s: float) -> float:
        """Return the hours between two checkpoints; infinite if none are saved."""
        epoch = self.images / images_per_s / 3600
        due = [self.checkpoint_epochs * epoch, self.checkpoint_minutes / 60]
        return min((hours for hours in due if hours), default=inf)

    def epochs_at(self, global_batch: int) -> float | None:
        """Return the epochs to the same target at a global batch.

        The recipe's epochs grow as MLPerf's do from the recipe's batch to this one. They never
        shrink, so that a small batch is not credited with epochs that nobody has measured.

        Returns:
            None beyond the largest batch that MLPerf has a reference point for.
        """
        reached = epochs_to_target(global_batch)
        if reached is None:
            return None
        own = epochs_to_target(self.recipe_batch or 0)
        return self.epochs * max(reached / own, 1.0) if own else None


def epochs_to_target(global_batch: int) -> float | None:
    """Return MLPerf's epochs at a global batch, interpolated over its logarithm.

    A point with more epochs than a larger batch counts as many as the larger one, as a larger batch
    needs no fewer epochs. Below the smallest point the value is that of the smallest.

    Returns:
        None beyond the largest point.
    """
    points: list[tuple[int, float]] = []
    least = float("inf")
    for batch, epochs in sorted(EPOCHS_TO_TARGET.items(), reverse=True):
        least = min(least, epochs)
        points.append((batch, least))
    points.reverse()
    if global_batch > points[-1][0]:
        return None
    if global_batch <= points[0][0]:
        return points[0][1]
    for (below, few), (above, many) in pairwise(points):
        if global_batch <= above:
            part = log2(global_batch / below) / log2(above / below)
            return few + (many - few) * part
    raise AssertionError(global_batch)


def read_workload(config: TrainConfig, images: int, gigabytes: float) -> Workload:
    """Return what a configuration asks of its nodes.

    Args:
        config: Configuration of the training.
        images: Images of an epoch.
        gigabytes: Size of the data set in GB.

    Raises:
        ConfigError: Nothing is known about the throughput of such a training; lists all reasons.
    """
    model, name = config.model, f"ResNet-{config.model.depth}"
    measured = "; `python -m jobs scaling` measures it"
    problems = []
    if config.task != "classification" or model.builder or model.network != "resnet":
        problems.append(f"--model: throughput is known of {', '.join(RESNETS)} alone{measured}")
    elif name not in RESNETS:
        problems.append(f"--model: {name} was not measured, only {', '.join(RESNETS)}{measured}")
    elif (model.width, model.stem, model.image_size) != (64, "7x7", 224):
        problems.append(
            f"--model: {name} of width {model.width} with a {model.stem} stem at"
            f" {model.image_size} pixels was not measured, only of width 64, 7x7, at 224 pixels"
        )
    problems += [
        f"{feature.words}: was not measured, only networks that are whole and whose gradients are"
        " summed in every step"
        for feature in config.features
        if feature.kinds
    ]
    if problems:
        raise ConfigError(problems)
    expected = EXPECTATIONS.get(config.preset)
    return Workload(
        name,
        config.compute.precision,
        config.compute.xla,
        images,
        gigabytes,
        float(config.epochs),
        config.batch_size,
        config.optimizer.accumulation,
        model.image_size,
        expected.global_batch if expected else None,
        float(config.checkpoint.every_epochs),
        config.checkpoint.every_minutes,
    )
