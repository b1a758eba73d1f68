"""Moves a run between its choices of nodes, for supervisors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from common.text import duration
from jobs.azure.job_records import Details, Job, move
from jobs.extras.elastic.choices import NUMBER, Choices
from jobs.extras.elastic.placement_policy import Left, Placed, following, leave
from jobs.following.job_states import WAITING
from jobs.leaf import PLACED, Place

PINNED: Final = "pinned"
"""Tag with the number of the choice that a user has pinned."""
_FREE: Final = ""
_WAITS: Final = ("Queued", *WAITING[:1])
"""States in which a job waits for its nodes."""


@dataclass(frozen=True)
class ElasticMoves:
    """The moves of one run."""

    choices: Choices

    @classmethod
    def of(cls, tags: Mapping[str, str]) -> Self | None:
        """Return the moves of a run, given the tags of its newest attempt; None if it has none."""
        choices = Choices.of(tags)
        return cls(choices) if choices else None

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters in Azure that the run may continue on."""
        return tuple(dict.fromkeys(offer.choice.cluster for offer in self.choices.offers))

    def leave(self, attempts: Sequence[tuple[Job, Details]], now: datetime) -> str | None:
        """Return why the newest attempt is to be ended, for the tag `MOVED`; None if it is not."""
        history = self._history(attempts, now)
        job, details = attempts[-1]
        if details.started is None and details.status not in _WAITS:
            # It has its nodes, and they pull the image.
            return None
        left = leave(history, self.choices.rules, self.choices.last, self._pinned(job))
        place, here = history[-1], self.choices.offers[history[-1].choice]
        words: Mapping[Left, str] = {
            "down": f"{here.name} did not come within {duration(place.waited_hours * 3600)}",
            "up": f"{self.choices.offers[0].name} is tried after"
            f" {duration(place.ran_hours * 3600)} on {here.name}",
            "pinned": f"a user has pinned another choice than {here.name}",
        }
        return f"{left}: {words[left]}" if left else None

    def place(
        self, attempts: Sequence[tuple[Job, Details]], available: Mapping[str, int], now: datetime
    ) -> Place:
        """Return where the next attempt runs, and why; see `jobs.following.moves.Moves`."""
        history = self._history(attempts, now)
        job = attempts[-1][0]
        choices = [offer.choice for offer in self.choices.offers]
        pinned = self._pinned(job)
        number = following(history, choices, available, pinned)
        offer = self.choices.offers[number]
        reason = move(*attempts[-1]).partition(": ")[2] or "its nodes were taken before"
        if pinned is not None:
            reason = "as pinned"
        tags = {NUMBER: str(number), PLACED: f"{offer.name}: {reason}"}
        return Place(
            offer.choice.cluster, offer.choice.nodes, offer.processes, offer.batch_size, tags
        )

    def _pinned(self, job: Job) -> int | None:
        text = job.tags.get(PINNED, _FREE)
        return int(text) if text.isdigit() and int(text) <= self.choices.last else None

    def _history(self, attempts: Sequence[tuple[Job, Details]], now: datetime) -> list[Placed]:
        return [self._placed(job, details, now) for job, details in attempts]

    def _placed(self, job: Job, details: Details, now: datetime) -> Placed:
        number = job.tags.get(NUMBER, "0")
        begun, end = details.started, details.ended or now
        waited = ((begun or end) - job.created).total_seconds() if job.created else 0.0
        ran = (end - begun).total_seconds() if begun else 0.0
        left = move(job, details).partition(":")[0]
        known: dict[str, Left] = {"down": "down", "up": "up", "pinned": "pinned"}
        choice = int(number) if number.isdigit() else 0
        return Placed(
            min(choice, self.choices.last),
            max(waited, 0.0) / 3600,
            max(ran, 0.0) / 3600,
            known.get(left, ""),
        )


def about_run(run: Any, outputs: object) -> str | None:
    """Return where the attempts of a `ComparedRun` ran, and why; None if they could not move."""
    del outputs
    placed = [job.tags[PLACED] for job in run.jobs if PLACED in job.tags]
    return f"{run.key} ran on {'; then on '.join(placed)}" if placed else None
