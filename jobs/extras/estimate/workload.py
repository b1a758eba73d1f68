"""What a run asks of its nodes: its own steps, its data, its memory. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf, log2
from typing import Final

from common.errors import ConfigError
from jobs import throughput
from jobs.extras.estimate.published import RESNETS
from trainer.config import TrainConfig
from trainer.data.manifest import SIDES, Manifest
from trainer.presets import EXPECTATIONS
from trainer.training.plan import Plan, make_plan

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
LARGEST_LINEAR: Final = 8_192
"""Largest global batch for which the linear rule and a warm-up are published to reach the accuracy
of a small batch with momentum (Goyal et al. 2017)."""
_TF32: Final = {"A100", "A30", "A10", "H100", "H100 NVL", "H200"}
"""GPUs on which TensorFlow computes float32 convolutions as TF32."""
_BLOCKS: Final = {
    "ResNet-50": (3, 4, 6, 3),
    "ResNet-101": (3, 4, 23, 3),
    "ResNet-152": (3, 8, 36, 3),
}
_PARAMETERS: Final = {"ResNet-50": 25.6e6, "ResNet-101": 44.6e6, "ResNet-152": 60.2e6}


@dataclass(frozen=True)
class DataSet:
    """The training images that a run reads."""

    images: int = 1_281_167
    gigabytes: float = 147.0
    """Size of their files in GB (1e9 bytes)."""
    megapixels: float = 0.201
    """Mean pixels of an image, in millions. Of ImageNet, 500 x 402 is an assumption."""
    name: str = "ImageNet"
    """With its version, if that is known."""

    @property
    def bytes_per_image(self) -> float:
        return self.gigabytes * 1e9 / self.images

    @classmethod
    def of(cls, manifest: Manifest, name: str) -> "DataSet":
        """Return what a manifest says of the training images.

        Raises:
            ConfigError: The data set has no training images, or its images were not measured.
        """
        split = manifest.splits.get("train")
        if split is None or not split.examples:
            raise ConfigError([f"--data: {name} has no training images"])
        sides = split.sides
        if not sum(sides.short):
            raise ConfigError(
                [f"--data: the sizes of the images of {name} are not in its manifest; pass"
                 " --images, --gigabytes and --pixels instead"]
            )  # fmt: skip
        size = sum(shard.bytes for shard in split.shards)
        pixels = _mean_side(sides.short) * _mean_side(sides.long)
        known = f"{name}, version {manifest.version}"
        return cls(split.examples, size / 1e9, pixels / 1e6, known)

    def __str__(self) -> str:
        each = (
            f"{self.bytes_per_image / 1000:,.0f} KB and {self.megapixels:.2g} megapixels an image"
        )
        return f"{self.name}: {self.images:,} images, {self.gigabytes:.4g} GB, {each}"


def _mean_side(counts: tuple[int, ...]) -> float:
    """Return the mean side of images that are counted by bin, each at the middle of its bin."""
    ends = (*SIDES[1:], SIDES[-1] * 2)
    middles = [(low + high) / 2 for low, high in zip(SIDES, ends, strict=True)]
    pairs = zip(counts, middles, strict=False)
    return sum(count * middle for count, middle in pairs) / sum(counts)


@dataclass(frozen=True)
class Workload:
    """A run, as far as throughput and cost depend on it."""

    config: TrainConfig
    """Its configuration, of a network in `RESNETS`."""
    data: DataSet = DataSet()

    def __post_init__(self) -> None:
        if self.model not in RESNETS:
            raise ConfigError(
                [
                    f"--model: throughput is known of {', '.join(RESNETS)} at 224 pixels alone, not"
                    f" of {self.model}; measure it first (docs/plan.md)"
                ]
            )

    @cached_property
    def model(self) -> str:
        """Network as measurements call it."""
        return throughput.model_name(self.config)

    @property
    def images(self) -> int:
        """Images of an epoch."""
        return self.data.images

    @property
    def batch_per_gpu(self) -> int:
        """Images of a GPU in each update, over all of its micro-batches."""
        return self.config.batch_size

    @property
    def micro_batch(self) -> int:
        """Images that a GPU treats at once."""
        return self.config.batch_size // self.config.optimizer.accumulation

    @property
    def software(self) -> str:
        """Kind of software, as measurements call it."""
        return "TensorFlow with XLA" if self.config.compute.xla else "TensorFlow"

    def plan(self, ranks: int) -> Plan:
        """Return the steps that the run takes on a number of GPUs, as the trainer plans them.

        Raises:
            ConfigError: The configuration does not fit the data or the ranks.
        """
        return make_plan(self.config, ranks, self.images)

    def __str__(self) -> str:
        """Return the run in a line."""
        config = self.config
        network = f"{self.model}, {config.compute.precision}, {self.software}"
        ends = f", at most {config.max_steps:,} steps" if config.max_steps else ""
        rule = config.optimizer
        optimizer = f"{rule.kind}, rate {rule.learning_rate:g}, scaling {rule.rate_scaling}"
        batch = f"{self.batch_per_gpu} images a GPU"
        return f"{network}: {config.epochs:g} epochs{ends}, {batch}, {optimizer}\n{self.data}"

    def precision_on(self, gpu: str) -> str:
        """Return how measurements call the precision on a type of GPU."""
        if self.config.compute.precision == "mixed_float16":
            return "amp"
        if self.config.compute.precision == "mixed_bfloat16":
            # Nothing that was published is known to have been measured with it.
            return "bf16"
        return "tf32" if gpu in _TF32 else "fp32"

    def memory_problem(self, memory_gb: float) -> str | None:
        """Return why the batch cannot fit into the memory of a GPU; None if it may.

        A lower bound: the output of each convolution is kept once until the backward pass, and
        weights, gradients and momentum have 4 bytes each. Real programs need more.
        """
        size = 4 if self.config.compute.precision == "float32" else 2
        kept = activations(self.model) * size * self.micro_batch
        needed = (kept + 12 * _PARAMETERS[self.model]) / 1e9
        if needed <= memory_gb:
            return None
        return (
            f"{self.micro_batch:,} images do not fit: outputs of convolutions and weights alone"
            f" take {needed:.0f} GB, the GPU has {memory_gb:g} GB"
        )

    def unpublished_batch(self, global_batch: int) -> str | None:
        """Return why the recipe is not published for a global batch; None if it is."""
        preset = EXPECTATIONS.get(self.config.preset)
        wanted = preset.global_batch if preset else None
        if wanted is not None and wanted != global_batch:
            return f"the preset is for a global batch of {wanted:,}, not {global_batch:,}"
        if (
            wanted is None
            and self.config.optimizer.kind != "lars"
            and global_batch > LARGEST_LINEAR
        ):
            return (
                f"{self.config.optimizer.kind} is published up to a global batch of"
                f" {LARGEST_LINEAR:,}, not {global_batch:,} (docs/large-batches.md)"
            )
        return None

    def checkpoint_hours(self, images_per_s: float) -> float:
        """Return the hours between two checkpoints; infinite if none are saved."""
        saved, epoch = self.config.checkpoint, self.images / images_per_s / 3600
        due = [saved.every_epochs * epoch, saved.every_minutes / 60]
        return min((hours for hours in due if hours), default=inf)

    def epochs_to_same_accuracy(self, global_batch: int) -> float | None:
        """Return the epochs to the accuracy of the recipe at a global batch: its own, and more with
        LARS beyond the smallest batch of MLPerf's points, or beyond the recipe's own batch.

        Returns:
            None beyond the largest batch that MLPerf has a reference point for.
        """
        preset = EXPECTATIONS.get(self.config.preset)
        recipe = (preset.global_batch if preset else None) or 0
        reached, own = epochs_to_target(global_batch), epochs_to_target(recipe)
        if reached is None or own is None:
            return None
        return self.config.epochs * max(reached / own, 1.0)


def activations(model: str) -> int:
    """Return the values that the convolutions of a ResNet v1.5 put out for one image of 224
    pixels.
    """
    total, side = 112 * 112 * 64, 56
    for stage, count in enumerate(_BLOCKS[model]):
        width = 64 * 2**stage
        for block in range(count):
            # The 3 x 3 convolution of the first block halves the sides.
            inside = side
            if stage and not block:
                side //= 2
            total += inside**2 * width + side**2 * 5 * width
            total += side**2 * 4 * width if not block else 0
    return total


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
