"""A judge's verdict: numbers of items judged, accepted and refused, and the refusals. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import UserError


class ConformanceError(UserError):
    """A judge cannot be installed or run."""


@dataclass(frozen=True)
class Refusal:
    """Something that a judge does not accept."""

    what: str
    """The thing, and the judge's own words."""
    reason: str = ""
    """Why it stays as it is, from a reviewed table; empty if it was not reviewed, which fails the
    run."""


@dataclass(frozen=True)
class Verdict:
    """The result of one judge."""

    judge: str
    """The program."""
    version: str
    """Its version."""
    judged: str
    """Everything that was judged, in words, such as "212 requests of 61 operations"."""
    accepted: int
    """Number of things that were accepted."""
    refused: tuple[Refusal, ...] = ()

    @property
    def unexplained(self) -> tuple[Refusal, ...]:
        """Refusals without a reason."""
        return tuple(refusal for refusal in self.refused if not refusal.reason)

    @staticmethod
    def read(data: Mapping[str, Any]) -> "Verdict":
        """Read a verdict as `dataclasses.asdict` wrote it."""
        refused = tuple(Refusal(**refusal) for refusal in data["refused"])
        return Verdict(**{**data, "refused": refused})


def explained(refused: Iterable[str], reasons: Mapping[str, str]) -> tuple[Refusal, ...]:
    """Give every refusal its reason from a reviewed table.

    Args:
        refused: The judge's words for each thing that it refused.
        reasons: Reasons by the beginning of these words.

    Raises:
        ConformanceError: a reason explains nothing any more; it names the reason.
    """
    texts = sorted(refused)
    idle = [start for start in reasons if not any(text.startswith(start) for text in texts)]
    if idle:
        raise ConformanceError(f"no refusal begins with {idle[0]!r}; delete its reason")
    return tuple(
        Refusal(text, next((why for start, why in reasons.items() if text.startswith(start)), ""))
        for text in texts
    )
