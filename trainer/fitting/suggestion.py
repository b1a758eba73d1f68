"""The run that fits a data set, as the command line with which a newcomer can begin."""

import json
import os
import shlex
import struct
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from common.program import installed
from common.text import plural
from trainer.config import TrainConfig
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import SIDES, Manifest, Sides, check_trainable, read_manifest
from trainer.errors import DataError
from trainer.fitting.choice import (
    SMALL,
    Facts,
    choose,
    cropped,
    fitted,
    full_size,
    small_run,
)
from trainer.leaves import TASKS
from trainer.networks import NETWORKS
from trainer.presets import EXPECTATIONS, PRESETS, to_args
from trainer.task_descriptions import TaskDescription

WEIGHTS: Final = "resnet50.safetensors"
"""File of initial weights, to be had by the user; see `ml-trainer weights`."""
_HEADER: Final = 1 << 24
"""Most bytes of the header of a safetensors file that are read."""
_COLOUR: Final = 1.0
"""Difference of the means of red, green and blue, in levels, from which images are in colour."""


def print_suggestion(folder: Path) -> None:
    """Print the commands that train on a data set, or why none can; nothing in a job of Azure ML,
    whose folder is gone when it ends.
    """
    if "AZUREML_RUN_ID" in os.environ:
        return
    manifest = read_manifest(folder)
    task = task_of(manifest, folder)
    try:
        check_trainable(manifest, None, str(folder), task)
    except DataError as error:
        print(f"note: {error}")
        return
    train = manifest.splits["train"]
    small, *large = suggest(facts_of(manifest), str(folder), task)
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
    return shlex.join([installed("ml-trainer"), "train", *to_args(config)])


def suggest(facts: Facts, folder: str, task: TaskDescription) -> list[TrainConfig]:
    """Return a run on a CPU and, if images are large enough, those of all their detail on GPUs.

    Images of one class each are trained on as `trainer.fitting.choice` chooses. Of other tasks,
    small images are trained on as the preset of the task's embedded data set does: whole and moved
    by some pixels. Larger ones are trained on as the preset of its suggestion does.

    Args:
        facts: Sizes and number of the training images.
        folder: Folder of the data set.
        task: The task.
    """
    suggestion = task.suggestion
    if suggestion.finetune:
        first = choose(replace(facts, gpu=False), folder, suggestion).config
    elif facts.short is not None and facts.short < SMALL:
        smallest = NETWORKS[PRESETS[suggestion.small].model.network].smallest
        first = small_run(suggestion.small, facts.short, smallest)
    else:
        first = PRESETS[suggestion.images]
        model = replace(first.model, network=suggestion.network)
        first = replace(first, task=task.name, model=model)
    configs, full = [first], full_size(facts.short)
    names = [names for least, names in suggestion.large if facts.images >= least]
    for name in names[-1] if full and names else ():
        gpu = PRESETS[name]
        file = WEIGHTS if "--model.weights" in EXPECTATIONS[name].needs else None
        model = replace(gpu.model, image_size=full, weights=file)
        gpu = replace(gpu, task=task.name, model=model)
        if suggestion.finetune:
            mirrored = replace(gpu.data, flip=facts.photographs)
            gpu = cropped(replace(gpu, data=mirrored), facts, suggestion)
        configs.append(gpu)
    return [fitted(config, facts.images, folder) for config in configs]


def facts_of(manifest: Manifest, *, gpu: bool = False) -> Facts:
    """Return the known facts about a data set, for a choice."""
    train = manifest.splits["train"]
    colours = manifest.normalization.mean
    photographs = train.encodings == ("JPEG",) and max(colours) - min(colours) > _COLOUR
    counts, short = train.class_counts, _median(train.sides)
    held_out = manifest.splits["validation"].examples if "validation" in manifest.splits else 0
    return Facts(train.examples, short, counts, held_out, photographs=photographs, gpu=gpu)


def stored_depth(weights: str) -> int | None:
    """Return the layers of the ResNet that a safetensors file is of; None if it does not say."""
    try:
        with Path(weights).open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            facts = json.loads(file.read(min(length, _HEADER)))["__metadata__"]
        return int(facts["depth"])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _median(sides: Sides) -> int | None:
    """Return the lower bound of the bin of `SIDES` that has the median short side, in pixels."""
    ends = list(accumulate(sides.short))
    if not ends or not ends[-1]:
        return None
    return SIDES[bisect_left(ends, ends[-1] / 2)]


def task_of(manifest: Manifest, folder: Path) -> TaskDescription:
    """Return the task whose targets the columns of the manifest, or else the first training record,
    hold; classification if there are none.
    """
    default, *others = TASKS.values()
    shards = (shard for shard in manifest.splits["train"].shards if shard.examples)
    first = next(shards, None)
    if manifest.format:
        held = {manifest.columns.get("target", "")}
    elif first is None:
        return default
    else:
        held = {*from_example(next(read_shard(manifest.folder(folder) / first.file))).more}
    return next((task for task in others if held & task.features.keys()), default)
