"""Options of head groups, and what they can be combined with. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Any

from common.annotations import Bounds, Formerly
from trainer.leaf import DENSE_TASK, UPDATES_ALONE, Feature, Leaf


@dataclass(frozen=True)
class HeadOptions:
    """Ranks that share one last layer."""

    groups: Annotated[int, Bounds(at_least=1), Formerly("model.head_groups", moved=True)] = 1
    """Ranks that share one last layer, each with an equal part of the classes, if the whole layer
    does not fit into the memory of one; it must divide the number of ranks and of classes.
    1: every rank has the whole layer."""


def _fits(config: Any, ranks: int, classes: int | None) -> list[str]:
    groups = config.of(HeadOptions).groups
    problems = []
    if ranks % groups:
        problems.append(
            f"--head.groups: {groups} does not divide the number of ranks, {ranks}; choose a number"
            " that does, or another number of ranks"
        )
    if classes is not None and classes % groups:
        problems.append(
            f"--head.groups: {groups} does not divide the number of classes, {classes}; choose a"
            " number that does"
        )
    return problems


LEAF = Leaf(
    key="head",
    options=HeadOptions,
    on_resume="free",
    features=(
        Feature(
            "head groups",
            "--head.groups above 1",
            lambda config: config.of(HeadOptions).groups > 1,
            {
                (
                    DENSE_TASK,
                ): "only the softmax of a dense last layer, for one class per image, is divided",
                (UPDATES_ALONE,): (
                    "the ranks of a group exchange features in every step, so no step is a rank's"
                    " own"
                ),
                ("float16 exchange",): "the features and their gradients are sent in float32",
                ("xla",): "XLA cannot compile the exchange inside the loss",
            },
        ),
    ),
    fits=_fits,
    neighbours="head.groups",
    division="trainer.extras.head.division:HeadGroups",
)
