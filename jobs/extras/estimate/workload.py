"""The run that is estimated: its steps, its data, what decoding its images takes. Pure."""

import json
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Final

from common.errors import ConfigError
from jobs import throughput
from trainer.config import TrainConfig
from trainer.data.manifest import SIDES, Manifest
from trainer.presets import EXPECTATIONS
from trainer.training.plan import Plan, make_plan

LARGEST_LINEAR: Final = 8_192
"""Largest global batch for which the linear rule and a warm-up are published to reach the accuracy
of a small batch with momentum (Goyal et al. 2017)."""


@dataclass(frozen=True)
class DataSize:
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
    def of(cls, manifest: Manifest, name: str) -> "DataSize":
        """Return the size of the training images by a manifest.

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


@cache
def decoding() -> dict[str, float | str]:
    """Return the coefficients of the CPU time of an image, which `python -m tools.benchmarks
    decoding --json tools/benchmarks/results/decoding.json --to jobs/extras/estimate/decoding.json`
    wrote.
    """
    coefficients: dict[str, float | str] = json.loads(
        Path(__file__).with_name("decoding.json").read_text(encoding="utf-8")
    )
    return coefficients


def decoding_ms(data: DataSize) -> float:
    """Return the CPU time of decoding, cropping and resizing an image, in milliseconds."""
    base, pixels, size = (
        float(decoding()[name]) for name in ("base_ms", "ms_per_megapixel", "ms_per_megabyte")
    )
    return base + pixels * data.megapixels + size * data.bytes_per_image / 1e6


@dataclass(frozen=True)
class Workload:
    """A run, as far as its hours depend on it."""

    config: TrainConfig
    data: DataSize = DataSize()

    @property
    def model(self) -> str:
        """Network as measurements call it."""
        return throughput.model_name(self.config)

    def plan(self, ranks: int) -> Plan:
        """Return the steps that the run takes on a number of ranks, as the trainer plans them.

        Raises:
            ConfigError: The configuration does not fit the data or the ranks.
        """
        return make_plan(self.config, ranks, self.data.images)

    def __str__(self) -> str:
        """Return the run in two lines."""
        config = self.config
        network = f"{self.model}, {config.compute.precision}{', XLA' * config.compute.xla}"
        ends = f", at most {config.max_steps:,} steps" if config.max_steps else ""
        batch = f"{config.batch_size} images a rank, {config.optimizer.kind}"
        return f"{network}: {config.epochs:g} epochs{ends}, {batch}\n{self.data}"

    def unpublished_batch(self, global_batch: int) -> str | None:
        """Return why the recipe is not published for a global batch; None if it is."""
        preset = EXPECTATIONS.get(self.config.preset)
        wanted = preset.global_batch if preset else None
        if wanted is not None and wanted != global_batch:
            return f"the preset is for a global batch of {wanted:,}, not {global_batch:,}"
        kind = self.config.optimizer.kind
        if wanted is None and kind != "lars" and global_batch > LARGEST_LINEAR:
            return (
                f"{kind} is published up to a global batch of {LARGEST_LINEAR:,}, not"
                f" {global_batch:,} (docs/large-batches.md)"
            )
        return None

    def checkpoint_hours(self, images_per_s: float) -> float:
        """Return the hours between two checkpoints; infinite if none are saved."""
        saved, epoch = self.config.checkpoint, self.data.images / images_per_s / 3600
        due = [saved.every_epochs * epoch, saved.every_minutes / 60]
        return min((hours for hours in due if hours), default=inf)
