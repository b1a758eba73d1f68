"""A run that continues on the nodes that there are, as a leaf."""

from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Bounds
from jobs.leaf import JobCommand, Leaf, Placement


@dataclass(frozen=True)
class ElasticOptions:
    """On which nodes a run may continue, if those that it asks for do not come."""

    min_nodes: Annotated[int | None, Bounds(at_least=1)] = None
    """Fewest nodes that the run may continue on: it asks for half of --nodes, then for half of
    those, and so on. None always waits for --nodes. The global batch stays, so that half of the
    nodes take twice the --batch-size each; pass an --optimizer.accumulation with which that fits
    into the memory of a GPU."""

    clusters: tuple[str, ...] = ()
    """Further clusters that the run may continue on, in this order, by their names in the stack's
    settings. Weights have the same bits on the same model of GPU alone."""

    move_down_minutes: Annotated[float, Bounds(above=0)] = 15.0
    """Minutes to wait for nodes before the run asks for fewer, or for those of another cluster."""

    move_up_hours: Annotated[float, Bounds(above=0)] = 1.0
    """Hours on fewer nodes, or on another cluster, after which the run saves its state and asks for
    its --nodes again; twice as many each time that they do not come."""


LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "place",
            "train",
            "pin the nodes of a run that may continue on fewer, or free it again",
            "jobs.extras.elastic.command:run",
        ),
    ),
    about_run="jobs.extras.elastic.placement:about_run",
    placement=Placement(
        ElasticOptions,
        "jobs.extras.elastic.choices:offer",
        "jobs.extras.elastic.choices:check",
        "jobs.extras.elastic.placement:ElasticMoves",
    ),
)
