"""Options of head groups, and their combinations with others. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Formerly
from trainer.leaf import DENSE_TASK, Feature, Leaf, StrategyDescription


@dataclass(frozen=True)
class HeadOptions:
    """Ranks that share one last layer."""

    groups: Annotated[int, Bounds(at_least=1), Formerly("model.head_groups", moved=True)] = 1
    """Ranks that share one last layer, each with an equal part of the classes, if the whole layer
    does not fit into the memory of one; it must divide the number of ranks and of classes.
    1: every rank has the whole layer."""


class HeadDescription(StrategyDescription):
    """See `StrategyDescription`."""

    code = "trainer.extras.head.strategy:HeadGroups"
    divides_network = True

    @property
    def neighbours(self) -> int:
        """See `StrategyDescription.neighbours`."""
        return int(self.config.of(HeadOptions).groups)

    def misfits(self, ranks: int, classes: int | None) -> list[str]:
        """See `StrategyDescription.misfits`."""
        groups, problems = self.neighbours, []
        if ranks % groups:
            problems.append(
                f"--head.groups: {groups} does not divide the number of ranks, {ranks}; choose a"
                " number that does, or another number of ranks"
            )
        if classes is not None and classes % groups:
            problems.append(
                f"--head.groups: {groups} does not divide the number of classes, {classes}; choose"
                " a number that does"
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
                ("float16 exchange",): "the features and their gradients are sent in float32",
                ("xla",): "XLA cannot compile the exchange inside the loss",
            },
        ),
    ),
    strategy=HeadDescription,
)
