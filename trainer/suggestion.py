"""The run that fits a data set, as the command line with which a newcomer can begin."""

import os
import shlex
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from common.program import interpreter
from common.text import plural
from trainer.config import TrainConfig
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import SIDES, Manifest, Sides, check_trainable, read_manifest
from trainer.errors import DataError
from trainer.leaves import TASKS
from trainer.networks import NETWORKS
from trainer.presets import EXPECTATIONS, PRESETS, to_args
from trainer.task_descriptions import TaskDescription

_SMALL: Final = 64
"""Short side, in pixels, below which images are taken whole, and networks do not shrink them at
once."""
_SIZES: Final = {1: 16, 16: 32}
"""Input sizes, in pixels, for images of the smallest bins of `SIDES`; above these a bin's own lower
bound. Images of 28 pixels are enlarged to 32 rather than shrunk to 16."""
_FULL_SIZES: Final = (128, 160, 192, 224)
"""Input sizes, in pixels, of runs on a GPU; 224 is ImageNet's."""
_WEIGHTS: Final = "resnet50.safetensors"
"""File of initial weights, to be had by the user."""
_STEPS: Final = 8
"""Steps that an epoch should have at least; the batch is halved until it has."""
_SMALLEST_BATCH: Final = 4
"""Images per rank; batch norm needs several."""


def print_suggestion(folder: Path) -> None:
    """Print the commands that train on a data set, or why none can; nothing in a job of Azure ML,
    whose folder is gone when it ends.
    """
    if "AZUREML_RUN_ID" in os.environ:
        return
    manifest = read_manifest(folder)
    task = _task_of(manifest, folder)
    try:
        check_trainable(manifest, None, str(folder), task)
    except DataError as error:
        print(f"note: {error}")
        return
    train = manifest.splits["train"]
    small, *large = suggest(train.sides, train.examples, str(folder), task)
    classes = plural(len(manifest.classes), "class", "classes")
    print(
        f"to train on {plural(train.examples, 'image')} of {classes} at"
        f" {small.model.image_size} pixels:\n    {command(small)}"
    )
    for config in large:
        start = "random weights"
        if config.model.weights is not None:
            start = f"{config.model.weights}, any file of --model.weights"
        print(
            f"with GPUs, at {config.model.image_size} pixels from {start}: learning rate"
            f" {config.optimizer.learning_rate:g} per 256 images, at most"
            f" {plural(config.epochs, 'epoch')}:\n    {command(config)}"
        )
    if large:
        plan = shlex.join(["make", "plan", f"PRESET={large[-1].preset}", f"ARGS=--data {folder}"])
        print(
            "the accuracy depends on the images, and no run has shown it yet; hours and cost on"
            f" Azure:\n    {plan}"
        )


def command(config: TrainConfig) -> str:
    """Return the command line of a run."""
    return shlex.join([interpreter(), "-m", "trainer", "train", *to_args(config)])


def suggest(sides: Sides, examples: int, folder: str, task: TaskDescription) -> list[TrainConfig]:
    """Return a run that is a first look on a CPU and, if images are large enough, those of all
    their detail on GPUs.

    Small images are trained on as the preset of the task's embedded data set does: whole and moved
    by some pixels. Larger ones are trained on as the preset of its suggestion does.

    Args:
        sides: Sizes of the training images; empty if they were not measured.
        examples: Number of training images.
        folder: Folder of the data set.
        task: What is to be learned.
    """
    short = _median(sides)
    if short is not None and short < _SMALL:
        first = PRESETS[task.suggestion.small]
        size = max(_SIZES.get(short, short), 16, NETWORKS[first.model.network].smallest)
        first = replace(first, model=replace(first.model, image_size=size))
    else:
        first = PRESETS[task.suggestion.images]
        model = replace(first.model, network=task.suggestion.network)
        first = replace(first, task=task.name, model=model)
    found = [first]
    full = max((size for size in _FULL_SIZES if size <= (short or 0)), default=0)
    names = [names for least, names in task.suggestion.large if examples >= least]
    for name in names[-1] if full and names else ():
        gpu = PRESETS[name]
        file = _WEIGHTS if "--model.weights" in EXPECTATIONS[name].needs else None
        model = replace(gpu.model, image_size=full, weights=file)
        found.append(replace(gpu, task=task.name, model=model))
    return [_fitted(config, examples, folder) for config in found]


def _fitted(config: TrainConfig, examples: int, folder: str) -> TrainConfig:
    """Return a run on a folder, with a batch that is small compared with its images."""
    batch = config.batch_size
    while batch > _SMALLEST_BATCH and examples < _STEPS * batch * config.ranks:
        batch //= 2
    data = replace(config.data, source="tfrecords", dir=folder)
    return replace(config, batch_size=batch, data=data)


def _median(sides: Sides) -> int | None:
    """Return the lower bound of the bin of `SIDES` that has the median short side, in pixels."""
    ends = list(accumulate(sides.short))
    if not ends or not ends[-1]:
        return None
    return SIDES[bisect_left(ends, ends[-1] / 2)]


def _task_of(manifest: Manifest, folder: Path) -> TaskDescription:
    """Return the task that the first training record is for; classification if there is none."""
    default, *others = TASKS.values()
    shards = (shard for shard in manifest.splits["train"].shards if shard.examples)
    first = next(shards, None)
    if manifest.format or first is None:
        return default
    record = from_example(next(read_shard(manifest.folder(folder) / first.file)))
    return next((task for task in others if record.more.keys() & task.features.keys()), default)
