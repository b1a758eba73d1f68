"""Options of periodic averaging, and after which steps it averages. Standard library only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from common.annotations import Bounds, Formerly
from trainer.leaf import Exchanges, Feature, Leaf


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


@dataclass(frozen=True)
class Averages(Exchanges):
    """After which steps the ranks are averaged."""

    every: int
    """Steps between two averages."""
    summed: int
    """Steps from the start whose gradients are summed; a multiple of `every`."""
    total: int
    """Steps of the whole run; an average follows the last one."""

    def next(self, step: int) -> int:
        """See `Exchanges.next`."""
        if step <= self.summed:
            return step
        return min(-(-step // self.every) * self.every, self.total)

    @property
    def facts(self) -> Mapping[str, str]:
        """See `Exchanges.facts`."""
        return {"averages": f"every {self.every} steps, after {self.summed:,} that sum gradients"}


def averages(config: Any, total: int) -> Averages:
    """Return after which steps a `TrainConfig` averages, given the steps of the whole run."""
    options = config.of(AveragingOptions)
    summed = math.ceil(options.together_until * total / options.every) * options.every
    return Averages(options.every, summed, total)


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
    exchanges=averages,
    step_rule="trainer.extras.averaging.rule:Averaging",
)
