"""Options for classes of different sizes, and their combinations with others. Standard library
only.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from common.annotations import Bounds
from trainer.leaf import DENSE_TASK, Feature, Leaf


@dataclass(frozen=True)
class ImbalanceOptions:
    """How to treat classes of very different sizes."""

    by: Literal["none", "weights", "sampling"] = "none"
    """weights: the loss of an image is multiplied by a factor of its class, which is larger for
    rare classes and 1 on average over the training images; sampling: images of rare classes are
    shown more often than others, so that a window of `data.shuffle_window` images shows its
    classes equally often. A class that is not in a window is not shown by it: for few images, use
    fewer `data.streams`."""

    beta: Annotated[float, Bounds(at_least=0, at_most=1)] = 1.0
    """How much an image of a class of n images counts: (1 - beta) / (1 - beta ^ n), from the
    effective number of Cui et al. 2019. 1 is 1 / n, by which all classes count equally; 0 is 1, by
    which all images do; 0.999 is between both for classes around 1,000 images."""


def _problems(config: Any) -> list[str]:
    options = config.of(ImbalanceOptions)
    if options.by == "none":
        return []
    problems, option = [], f"--imbalance.by {options.by}"
    if config.data.source == "synthetic":
        problems.append(f"{option}: synthetic data have no classes of different sizes")
    return problems


LEAF: Final = Leaf(
    key="imbalance",
    options=ImbalanceOptions,
    on_resume="changes the rest",
    features=(
        Feature(
            "class balance",
            "--imbalance.by sampling",
            lambda config: config.of(ImbalanceOptions).by != "none",
            {(DENSE_TASK,): "it is for one class per image"},
        ),
    ),
    problems=_problems,
)
