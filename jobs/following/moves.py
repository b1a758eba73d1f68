"""Where the next attempt of a run goes: the interface of leaves that move runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from common.program import load
from jobs.azure.job_records import Details, Job
from jobs.leaf import Place
from jobs.leaves import LEAVES


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
            available: Idle nodes of clusters, by name.
            now: Current time.
        """


def moves_of(tags: Mapping[str, str]) -> Moves | None:
    """Return the moves of a run, given the tags of its newest attempt; None if it stays."""
    every = (load(leaf.placement.moves).of(tags) for leaf in LEAVES if leaf.placement)
    return next((moves for moves in every if moves is not None), None)
