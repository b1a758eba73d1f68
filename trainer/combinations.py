"""The combinations of features that are not supported, each with its reason.

Standard library only: a configuration is refused before anything is rented.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from trainer.tasks.table import TASKS

FEATURES: Final[Mapping[str, str]] = {
    "head groups": "--model.head-groups above 1",
    "stages": "--model.stages above 1",
    "periodic averaging": "--exchange.every above 1",
    "sharded state": "--optimizer.sharded True",
    "float16 exchange": "--exchange.compression fp16",
    "float16": "--compute.precision mixed_float16",
    "xla": "--compute.xla True",
    "adamw": "--optimizer.kind adamw",
    "dense": "--task " + "/".join(name for name, task in TASKS.items() if task.per != "image"),
}
"""Features that do not go with every other one, and the options that ask for them."""

UNSUPPORTED: Final[Mapping[tuple[str, ...], str]] = {
    ("head groups", "dense"): (
        "what is divided is a dense last layer with one row of logits per image"
    ),
    ("head groups", "stages"): "each divides the network, and they were not built to meet",
    ("head groups", "periodic averaging"): (
        "the ranks of a group exchange features in every step, so no step is a rank's own"
    ),
    ("head groups", "sharded state"): (
        "the state of the head is divided already, and that of the other layers is small beside it"
    ),
    ("head groups", "float16 exchange"): "the features and their gradients are sent in float32",
    ("head groups", "xla"): "XLA cannot compile the exchange inside the loss",
    ("stages", "xla"): "XLA compiles for one device",
    ("stages", "sharded state"): "the state is divided over the devices of a rank already",
    ("periodic averaging", "sharded state"): (
        "a rank that updates alone needs the whole state of the optimizer"
    ),
    ("periodic averaging", "float16 exchange"): (
        "weights are averaged, and float16 would round them"
    ),
    ("periodic averaging", "float16", "adamw"): (
        "a rank that leaves out a step whose gradients overflowed would count fewer steps than the"
        " others, and AdamW's update depends on the count"
    ),
    ("sharded state", "float16 exchange"): (
        "the reduce-scatter adds in the type that is sent, and float16 would lose small gradients"
    ),
}
"""Features that cannot be used together, and why."""


def combination_problems(features: AbstractSet[str]) -> list[str]:
    """List what is not supported in a set of features, with the options to change.

    Args:
        features: Keys of `FEATURES` that a configuration asks for.
    """
    return [
        f"{FEATURES[names[0]]} cannot be combined with"
        f" {' and '.join(FEATURES[name] for name in names[1:])}: {reason}"
        for names, reason in UNSUPPORTED.items()
        if features >= set(names)
    ]
