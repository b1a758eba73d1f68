"""Where the attempts of a run go: the interface of leaves that move runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from common.program import load
from jobs.azure.job_records import Details, Job
from jobs.azure.resource_manager import ResourceManager
from jobs.leaf import Place, Placement
from jobs.leaves import LEAVES, SubmitLeaves
from jobs.spec.job_spec import JobSpec
from trainer.config import TrainConfig


@dataclass(frozen=True)
class FurtherJobs:
    """The jobs that a run may continue as, as a leaf offers them."""

    placement: Placement
    specs: Sequence[JobSpec]

    def check(
        self, manager: ResourceManager, spec: JobSpec, config: TrainConfig | None
    ) -> Iterable[str]:
        """Check them and the first job in the workspace; return a line for each.

        Raises:
            UserError: One of them cannot run.
        """
        lines: Iterable[str] = load(self.placement.check)(manager, spec, self.specs, config)
        return lines


def offered(
    options: SubmitLeaves,
    spec: JobSpec,
    config: TrainConfig | None,
    key: str,
    build: Callable[[str, int, TrainConfig], JobSpec],
) -> tuple[JobSpec, tuple[FurtherJobs, ...]]:
    """Return a job with its choices as tags, and the jobs that it may continue as.

    Args:
        options: Options of leaves.
        spec: The job.
        config: Configuration of a job that trains.
        key: Name of its cluster in the stack's settings.
        build: Builds the same job on another cluster, with other nodes and configuration.

    Raises:
        SpecError: The run cannot continue there; lists all reasons.
    """
    further = []
    for placement in (leaf.placement for leaf in LEAVES if leaf.placement):
        spec, specs = load(placement.offer)(options, spec, config, key, build)
        if specs:
            further.append(FurtherJobs(placement, specs))
    return spec, tuple(further)


class Moves(Protocol):
    """The moves of one run. All it knows is in the tags and times of the attempts, so that every
    supervisor decides alike.
    """

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters in Azure that the run may continue on."""

    def leave(self, attempts: Sequence[tuple[Job, Details]], now: datetime) -> str | None:
        """Return why the newest attempt, which has not ended, is to be ended; None if it is not."""

    def place(
        self, attempts: Sequence[tuple[Job, Details]], available: Mapping[str, int], now: datetime
    ) -> Place:
        """Return where the attempt after these goes.

        Args:
            attempts: Attempts of the run, oldest first; all have ended.
            available: Nodes that clusters have now and that no job uses, by name.
            now: Current time.
        """


def moves_of(tags: Mapping[str, str]) -> Moves | None:
    """Return the moves of a run, given the tags of its newest attempt; None if it stays."""
    offered = (load(leaf.placement.moves).of(tags) for leaf in LEAVES if leaf.placement)
    return next((moves for moves in offered if moves is not None), None)
