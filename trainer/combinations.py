"""The combinations of features that are not supported, each with its reason.

A feature of a leaf says what it excludes, by name or by kind, so no leaf names another. Standard
library only: a configuration is refused before anything is rented.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Final

from trainer.leaf import DENSE_TASK, DIVIDED_NETWORK, OWN_SUMS, UPDATES_ALONE, Feature, Leaf
from trainer.leaves import LEAVES, TASKS


def _asks_for(task: str) -> Feature:
    return Feature(task, f"--task {task}", lambda config: config.task == task)


def _of(has: Callable[[Leaf], object]) -> tuple[Feature, ...]:
    return tuple(feature for leaf in LEAVES if has(leaf) for feature in leaf.features)


KINDS: Final[Mapping[str, tuple[Feature, ...]]] = {
    DIVIDED_NETWORK: _of(lambda leaf: leaf.devices or leaf.neighbours),
    UPDATES_ALONE: _of(lambda leaf: leaf.exchanges),
    OWN_SUMS: _of(lambda leaf: leaf.step_rule and not leaf.exchanges),
    DENSE_TASK: tuple(_asks_for(name) for name, task in TASKS.items() if task.per != "image"),
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
    for pair in combinations(KINDS[DIVIDED_NETWORK], 2):
        yield pair, "each divides the network, and they were not built to meet"
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
    """List what is not supported in a `TrainConfig`, with the options to change."""
    return [
        f"{features[0].words} cannot be combined with"
        f" {' and '.join(feature.words for feature in features[1:])}: {reason}"
        for features, reason in UNSUPPORTED
        if all(feature.wanted(config) for feature in features)
    ]
