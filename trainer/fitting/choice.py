"""The run that fits a data set of one class per image: a pure function of the facts about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from common.text import plural
from trainer.config import TrainConfig
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.early_stop.leaf import EarlyStopOptions
from trainer.presets import PRESETS
from trainer.task_descriptions import Suggestion

SMALL: Final = 64
"""Short side, in pixels, below which images are taken whole, and networks do not shrink them at
once."""
SIZES: Final = (64, 96, 128)
"""Input sizes of runs on a CPU, in pixels."""
FULL_SIZES: Final = (128, 160, 192, 224)
"""Input sizes of runs on a GPU, in pixels; 224 is ImageNet's."""
PASSES: Final = 60_000
"""Images that a run on a CPU is trained with in all its epochs together."""
EPOCHS: Final = (12, 120)
"""Fewest and most epochs of a run on a CPU: with fewer, images are hardly seen from several
sides; with more, few images are learned by heart."""
MOST_WORK: Final = 150_000
"""Work up to which larger images are taken, in images of 64 pixels: a quarter of an hour on 2 CPU
cores."""
UNEQUAL: Final = 3.0
"""Images of the largest class for one of the smallest, from which the loss weights classes."""
PHOTOGRAPH_CROP: Final = 0.35
"""Smallest part of a photograph that a random crop keeps: its object is large and in the middle. In
other images a sign of the class may be small and anywhere, so that more is kept of them, as the
preset `own-images` does."""
JUDGES: Final = 100
"""Held-out images from which they may end a run; fewer would choose an epoch by chance."""
METRIC: Final = "balanced_accuracy"
"""Metric that ends a run of one class per image: by it, rare classes count as much as others."""
_SMALL_SIZES: Final = {1: 16, 16: 32}
"""Input sizes, in pixels, for images of the smallest bins of `trainer.data.manifest.SIDES`; above
these a bin's own lower bound. Images of 28 pixels are enlarged to 32 rather than shrunk to 16."""
_STEPS: Final = 8
"""Steps that an epoch should have at least; the batch is halved until it has."""
_SMALLEST_BATCH: Final = 4
"""Images per rank; batch norm needs several."""


@dataclass(frozen=True)
class Facts:
    """Known facts about a data set and the machine."""

    images: int
    """Number of training images."""
    short: int | None
    """Lower bound of the bin that has the median short side, in pixels; None if it is unknown."""
    counts: tuple[int, ...] = ()
    """Training images of each class; empty if they have no classes of their own."""
    held_out: int = 0
    """Number of held-out images."""
    photographs: bool = False
    """Whether all images are JPEGs in colour."""
    gpu: bool = False
    """Whether the machine has a GPU."""

    @property
    def unequal(self) -> float:
        """Images of the largest class for one of the smallest class that has any; 1 without."""
        some = [count for count in self.counts if count]
        return max(some) / min(some) if some else 1.0


@dataclass(frozen=True)
class ChosenRun:
    """A run, and why it fits."""

    config: TrainConfig
    reasons: tuple[str, ...]
    """A clause for each decision."""


def choose(
    facts: Facts,
    folder: str,
    suggestion: Suggestion,
    *,
    weights: str | None = None,
    depth: int | None = None,
    mirror: bool | None = None,
) -> ChosenRun:
    """Choose the run for a data set of one class per image.

    Args:
        facts: Data set and machine.
        folder: Folder of the data set.
        suggestion: Presets of the task.
        weights: File of weights to start from; None starts from random weights.
        depth: Layers of the ResNet that it is of, if that is known.
        mirror: Whether to mirror half of the training images; None does it with photographs.
    """
    small = facts.short is not None and facts.short < SMALL
    if small and weights is None:
        choice = _small(facts, suggestion)
    elif facts.gpu and suggestion.large and (facts.short or 0) >= FULL_SIZES[0]:
        choice = _on_gpu(facts, suggestion, weights)
    else:
        choice = _on_cpu(facts, suggestion, weights)
    config, reasons = choice.config, list(choice.reasons)
    if weights is not None and depth is not None:
        # The field checks it.
        layers: dict[str, Any] = {"depth": depth}
        config = replace(config, model=replace(config.model, **layers))
    # Groups of options of leaves, which the class gets when it is made.
    more: dict[str, Any] = {}
    if facts.unequal >= UNEQUAL:
        reasons.append(
            f"the loss weights classes, because the largest has {facts.unequal:.1f} images for each"
            " of the smallest"
        )
        more["imbalance"] = ImbalanceOptions(by="weights")
    if facts.held_out >= JUDGES:
        patience = max(config.epochs // 3, 4)
        reasons.append(
            f"it ends early if balanced accuracy has not improved for {patience} epochs, by"
            f" {facts.held_out:,} held-out images"
        )
        more["early_stop"] = EarlyStopOptions(patience, metric=METRIC)
        more["checkpoint"] = replace(config.checkpoint, keep_best=True)
    mirrored = (facts.photographs and not small) if mirror is None else mirror
    reasons.append(_mirroring(mirrored=mirrored, asked=mirror is not None))
    config = replace(config, data=replace(config.data, flip=mirrored), **more)
    if not small:
        config = cropped(config, facts, suggestion)
        image = "a photograph" if facts.photographs else "an image"
        reasons.append(f"random crops keep {config.data.min_crop_area:.0%} of {image} or more")
    return ChosenRun(fitted(config, facts.images, folder), tuple(reasons))


def cropped(config: TrainConfig, facts: Facts, suggestion: Suggestion) -> TrainConfig:
    """Return a run whose random crops suit the images, and lose no sign that is near an edge."""
    if facts.photographs:
        return replace(config, data=replace(config.data, min_crop_area=PHOTOGRAPH_CROP))
    whole = PRESETS[suggestion.images].data
    data = replace(config.data, min_crop_area=whole.min_crop_area, eval_crop=whole.eval_crop)
    return replace(config, data=data)


def fitted(config: TrainConfig, images: int, folder: str) -> TrainConfig:
    """Return a run on a folder, with a batch that is small compared with its images."""
    batch = config.batch_size
    while batch > _SMALLEST_BATCH and images < _STEPS * batch * config.ranks:
        batch //= 2
    # A step takes the images of all ranks, which there must be.
    ranks = max(min(config.ranks, images // batch), 1)
    while batch > 1 and images < batch * ranks:
        batch //= 2
    data = replace(config.data, source="tfrecords", dir=folder)
    return replace(config, ranks=ranks, batch_size=batch, data=data)


def small_run(preset: str, short: int, smallest: int) -> TrainConfig:
    """Return a run on whole small images, given their median short side and the smallest size of
    the preset's network, in pixels.
    """
    config = PRESETS[preset]
    size = max(_SMALL_SIZES.get(short, short), 16, smallest)
    return replace(config, model=replace(config.model, image_size=size))


def full_size(short: int | None) -> int:
    """Return the input size on a GPU for a median short side, in pixels; 0 if that is too small."""
    return _largest(FULL_SIZES, short or 0)


def _small(facts: Facts, suggestion: Suggestion) -> ChosenRun:
    assert facts.short is not None
    config = small_run(suggestion.small, facts.short, 8)
    reason = (
        f"whole images of {config.model.image_size} pixels, as their median short side is below"
    )
    return ChosenRun(config, (f"{reason} {SMALL}",))


def _on_gpu(facts: Facts, suggestion: Suggestion, weights: str | None) -> ChosenRun:
    # The other rows are for more GPUs than one, which more images need.
    _, names = suggestion.large[0]
    config = PRESETS[names[0] if weights else names[-1]]
    size = full_size(facts.short)
    model = replace(config.model, image_size=size, weights=weights)
    return ChosenRun(replace(config, model=model), (f"{size} pixels, as there is a GPU",))


def _on_cpu(facts: Facts, suggestion: Suggestion, weights: str | None) -> ChosenRun:
    config = PRESETS[suggestion.finetune if weights else suggestion.images]
    passes = PASSES
    if weights:
        # Each epoch changes little of weights that have been trained, and costs much more.
        passes = PASSES // 6
    fewest, most = EPOCHS if not weights else (4, 20)
    epochs = min(max(passes // max(facts.images, 1), fewest), most)
    work = epochs * facts.images
    least = SIZES[0] if not weights else SIZES[1]
    affordable = [size for size in SIZES if work * (size / SIZES[0]) ** 2 <= MOST_WORK]
    size = max(least, min(_largest(SIZES, facts.short or SIZES[0]), max(affordable, default=0)))
    model = replace(config.model, image_size=size, weights=weights)
    config = replace(config, epochs=epochs, model=model)
    images = plural(facts.images, "image")
    return ChosenRun(config, (f"{plural(epochs, 'epoch')} at {size} pixels fit {images} on a CPU",))


def _mirroring(*, mirrored: bool, asked: bool) -> str:
    if asked:
        return f"images are {'' if mirrored else 'not '}mirrored, as you said"
    if mirrored:
        return (
            "images are mirrored, because they are photographs; if left and right differ, add"
            " --mirror False"
        )
    return "images are not mirrored, because left and right may differ; else add --mirror True"


def _largest(sizes: Sequence[int], most: int) -> int:
    return max((size for size in sizes if size <= most), default=0)
