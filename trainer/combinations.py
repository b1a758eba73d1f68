"""Contradictions in a configuration, and the combinations of features that are not supported.

A feature of a leaf says what it excludes, by name or by kind, so no leaf names another. Standard
library only: a configuration is refused before anything is rented.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Final

from common import fields
from trainer.leaf import DENSE_TASK, DIVIDED_NETWORK, Feature
from trainer.leaves import EMBEDDED, LEAVES, TASKS
from trainer.model_config import rate_problems
from trainer.networks import network_problems, stage_problems


def _asks_for(task: str) -> Feature:
    return Feature(task, f"--task {task}", lambda config: config.task == task)


_STRATEGIES: Final = [
    (feature, leaf.strategy) for leaf in LEAVES if leaf.strategy for feature in leaf.features
]
"""The strategies, with the feature that asks for each."""

KINDS: Final[Mapping[str, tuple[Feature, ...]]] = {
    DIVIDED_NETWORK: tuple(
        feature for feature, strategy in _STRATEGIES if strategy.divides_network
    ),
    DENSE_TASK: tuple(_asks_for(name) for name, task in TASKS.items() if task.features),
}
"""The features of each kind."""

FEATURES: Final[tuple[Feature, ...]] = (
    *(feature for leaf in LEAVES for feature in leaf.features),
    *KINDS[DENSE_TASK],
    Feature(
        "float16 exchange",
        "--exchange.compression fp16",
        lambda config: config.exchange.compression == "fp16",
    ),
    Feature(
        "float16",
        "--compute.precision mixed_float16",
        lambda config: config.compute.precision == "mixed_float16",
    ),
    Feature("xla", "--compute.xla True", lambda config: config.compute.xla),
    Feature("adamw", "--optimizer.kind adamw", lambda config: config.optimizer.kind == "adamw"),
)
"""Features that do not go with every other one."""


def _unsupported() -> Iterator[tuple[tuple[Feature, ...], str]]:
    """Iterate over the features that cannot be used together, and why."""
    for (feature, _), (other, _) in combinations(_STRATEGIES, 2):
        yield (feature, other), "a run updates its weights in one way"
    for feature in FEATURES:
        for names, reason in feature.excludes.items():
            for others in product(*map(_like, names)):
                yield (feature, *others), reason


def _like(name: str) -> Sequence[Feature]:
    """Return the features with a name, or of a kind."""
    return KINDS.get(name) or [feature for feature in FEATURES if feature.name == name]


UNSUPPORTED: Final[tuple[tuple[tuple[Feature, ...], str], ...]] = tuple(_unsupported())
"""Features that cannot be used together, and why."""


def combination_problems(config: Any) -> list[str]:
    """List unsupported combinations in a `TrainConfig`, with the options to change."""
    return [
        f"{features[0].words} cannot be combined with"
        f" {' and '.join(feature.words for feature in features[1:])}: {reason}"
        for features, reason in UNSUPPORTED
        if all(feature.wanted(config) for feature in features)
    ]


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def contradictions(config: Any) -> list[str]:
    """List fields that contradict each other, with the options to change."""
    problems = _bad_texts(config)
    optimizer = config.optimizer
    problems += _data_problems(config) + _model_problems(config)
    if config.batch_size % optimizer.accumulation:
        problems.append(
            f"--batch-size: {config.batch_size} cannot be divided evenly into"
            f" --optimizer.accumulation {optimizer.accumulation} micro-batches"
        )
    if config.exchange.compression == "fp16" and config.compute.precision != "mixed_float16":
        problems.append("--exchange.compression: fp16 needs --compute.precision mixed_float16")
    problems += _optimizer_contradictions(config)
    for leaf in LEAVES:
        problems += leaf.problems(config) if leaf.problems else []
    return [*problems, *combination_problems(config)]


def _optimizer_contradictions(config: Any) -> list[str]:
    optimizer, problems = config.optimizer, []
    if optimizer.nesterov and optimizer.kind != "momentum":
        problems.append(
            f"--optimizer.nesterov: {optimizer.kind} has no look-ahead; set it to False"
        )
    if optimizer.warmup_epochs >= config.epochs:
        problems.append(
            f"--optimizer.warmup-epochs: {optimizer.warmup_epochs:g} must be less than"
            f" --epochs {config.epochs}; give more epochs, or --optimizer.warmup-epochs 0"
        )
    if list(optimizer.decay_epochs) != sorted(set(optimizer.decay_epochs)):
        problems.append(f"--optimizer.decay-epochs: {optimizer.decay_epochs} must be increasing")
    return [*problems, *rate_problems(optimizer.rates)]


def _data_problems(config: Any) -> list[str]:
    data, problems = config.data, list[str]()
    problems += [
        f"--task: {config.task} does not fit --data.source {data.source}, which is for {task.name}"
        for task in TASKS.values()
        if task.embedded.source == data.source and task.name != config.task
    ]
    if data.source == "tfrecords" and data.dir is None:
        problems.append("--data.dir: name the folder with the shards and their manifest.json")
    if data.source == "synthetic" and data.dir is not None:
        problems.append("--data.dir: synthetic data is not read from a folder; leave it out")
    if data.source in EMBEDDED and data.flip:
        problems.append("--data.flip: a mirrored digit is a different symbol; set it to False")
    if data.augment == "shift" and data.shift_pixels >= config.model.image_size:
        problems.append(
            f"--data.shift-pixels: {data.shift_pixels} moves the whole image out of view"
        )
    return problems + [
        problem
        for name in ("mixup", "cutmix")
        if getattr(data, name)
        for problem in _mixing_problems(config, f"--data.{name}")
    ]


def _mixing_problems(config: Any, option: str) -> Iterator[str]:
    task, pieces = TASKS[config.task], config.optimizer.accumulation
    if task.per != "image":
        yield (
            f"{option}: it mixes the targets of whole images, and those of {task.name} are per"
            f" {task.per}; set it to 0"
        )
    if config.batch_size <= pieces:
        yield (
            f"{option}: an image is mixed with another of its micro-batch, and one of"
            f" {config.batch_size} / {pieces} images has no other; raise --batch-size or lower"
            " --optimizer.accumulation"
        )


def _model_problems(config: Any) -> list[str]:
    model = config.model
    problems = network_problems(
        model.network, model.builder, model.image_size, TASKS[config.task].per
    )
    if not all(model.frozen):
        problems.append("--model.frozen: an empty text begins every name; name a layer")
    problems += stage_problems(config)
    if model.weights == "":
        problems.append("--model.weights: an empty text is not a file; leave the option out")
    return problems


def _bad_texts(config: Any) -> list[str]:
    problems = []
    if config.name is not None and (not _NAME.fullmatch(config.name) or config.name == "latest"):
        problems.append(
            f"--name: {config.name!r} must be letters, digits, '.', '_' and '-' (at most 100, the"
            " first a letter or digit), and not 'latest'"
        )
    for leaf in fields.leaves(type(config)):
        value = fields.get(config, leaf.key)
        if value == "None":
            problems.append(f"{leaf.flag}: the text 'None' would be read as no value")
        elif (
            leaf.key.endswith("dir") and value is not None and (not value or value.startswith("-"))
        ):
            problems.append(f"{leaf.flag}: {value!r} is not a folder name")
    return problems
