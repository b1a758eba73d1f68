"""Options of stages, and their combinations with others. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Formerly
from trainer.leaf import Feature, Leaf, StrategyDescription


@dataclass(frozen=True)
class StagesOptions:
    """Devices of each rank over which its layers are divided."""

    count: Annotated[int, Bounds(at_least=1), Formerly("model.stages", moved=True)] = 1
    """Devices of each rank, over which its layers are divided in order, for networks that do not
    fit on one. `optimizer.accumulation` is the number of micro-batches that keep them busy; they
    are in several stages at once."""


class StagesDescription(StrategyDescription):
    """See `StrategyDescription`."""

    code = "trainer.extras.stages.strategy:Stages"
    divides_network = True
    devices_key = "stages.count"


LEAF = Leaf(
    key="stages",
    options=StagesOptions,
    on_resume="free",
    features=(
        Feature(
            "stages",
            "--stages.count above 1",
            lambda config: config.of(StagesOptions).count > 1,
            {("xla",): "XLA compiles for one device"},
        ),
    ),
    strategy=StagesDescription,
)
