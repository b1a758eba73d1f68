"""Options of periodic averaging, and after which steps it averages. Standard library only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Formerly
from trainer.leaf import Feature, Leaf, StrategyDescription


@dataclass(frozen=True)
class AveragingOptions:
    """Averages of the ranks' states in place of sums of gradients."""

    every: Annotated[int, Bounds(at_least=1), Formerly("exchange.every", moved=True)] = 1
    """Steps between two exchanges: 1 sums the gradients of every step; above 1 each rank updates on
    its own gradients, and every N steps weights, state of the optimizer and batch-norm
    statistics are averaged (local SGD, Stich 2018). For networks so slow that the exchange takes
    more than a fifth of a step; the result differs from that of every step."""

    together_until: Annotated[
        float, Bounds(at_least=0, at_most=1), Formerly("exchange.together_until", moved=True)
    ] = 0.5
    """With `every` above 1: the fraction of the run, from its start, in which the gradients of
    every step are still summed (post-local SGD, Lin et al. 2018)."""


def summed_steps(options: AveragingOptions, total: int) -> int:
    """Return the steps from the start of a run of `total` steps whose gradients are summed: a
    multiple of `every`.
    """
    return math.ceil(options.together_until * total / options.every) * options.every


class AveragingDescription(StrategyDescription):
    """See `StrategyDescription`."""

    code = "trainer.extras.averaging.strategy:Averaging"

    def equal_after(self, step: int, total: int) -> int:
        """See `StrategyDescription.equal_after`; an average follows the last step."""
        options: AveragingOptions = self.config.of(AveragingOptions)
        if step <= summed_steps(options, total):
            return step
        return min(-(-step // options.every) * options.every, total)

    def facts(self, total: int) -> Mapping[str, str]:
        """See `StrategyDescription.facts`."""
        options = self.config.of(AveragingOptions)
        summed = summed_steps(options, total)
        return {"averages": f"every {options.every} steps, after {summed:,} that sum gradients"}


LEAF = Leaf(
    key="averaging",
    options=AveragingOptions,
    on_resume="changes the rest",
    features=(
        Feature(
            "periodic averaging",
            "--averaging.every above 1",
            lambda config: config.of(AveragingOptions).every > 1,
            {
                ("float16 exchange",): "weights are averaged, and float16 would round them",
                ("float16", "adamw"): (
                    "a rank that leaves out a step whose gradients overflowed would count fewer"
                    " steps than the others, and AdamW's update depends on the count"
                ),
            },
        ),
    ),
    strategy=AveragingDescription,
)
