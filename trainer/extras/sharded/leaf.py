"""Options of the sharded state, and its combinations with others. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Formerly
from trainer.leaf import Feature, Leaf, StrategyDescription


@dataclass(frozen=True)
class ShardedOptions:
    """The state that is divided over all ranks."""

    state: Annotated[bool, Formerly("optimizer.sharded", moved=True)] = False
    """Divide the state of the optimizer over the ranks (ZeRO stage 1, Rajbhandari et al. 2020), for
    models whose state is large compared with their activations; ResNet50's is not."""


class ShardedDescription(StrategyDescription):
    """See `StrategyDescription`."""

    code = "trainer.extras.sharded.strategy:sharded_state"


LEAF = Leaf(
    key="sharded",
    options=ShardedOptions,
    on_resume="free",
    features=(
        Feature(
            "sharded state",
            "--sharded.state True",
            lambda config: config.of(ShardedOptions).state,
            {
                ("float16 exchange",): (
                    "the reduce-scatter adds in the type that is sent, and float16 would lose small"
                    " gradients"
                ),
            },
        ),
    ),
    strategy=ShardedDescription,
)
