"""What a commissioning has found: a file that is written after every step, and its page."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from common.errors import UserError
from common.files import write_atomically
from common.page.parts import Page, Tone
from common.text import duration, plural
from jobs.commission.steps import PREEMPTION, Step
from jobs.errors import FateUnknownError, RequestError

State = Literal["begun", "as expected", "different"]
NOT_SEEN: Final = "not seen"
_GUESSES: Final[Mapping[bool | None, str]] = {True: "right", False: "wrong", None: NOT_SEEN}
_TAKEN: Final = Step(
    PREEMPTION,
    (),
    0.0,
    "Azure takes nodes away, and the run is submitted again and continues",
    "docs/jobs.md, When a run is submitted again",
    guess="a pre-empted job fails with PreemptionError (docs/simulator.md, pre-emption)",
)
"""The row of pre-emptions, which no command can cause."""


@dataclass(frozen=True)
class Fact:
    """What a step has found, and when."""

    state: State
    at: str
    """Time in UTC as in ISO 8601."""
    found: str = ""
    guess: bool | None = None
    """Whether the step's guess was right; None if that was not seen."""
    status: int | None = None
    """Exit status of its command."""
    seconds: float = 0.0
    notes: str = ""
    """Last lines of what its command has printed."""


@dataclass
class Record:
    """Facts by the names of their steps."""

    path: Path
    facts: dict[str, Fact] = field(default_factory=dict)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """Facts that were replaced when their step was repeated, oldest first."""

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read a file; one that does not exist has no facts.

        Raises:
            UserError: The file is something else.
        """
        if not path.exists():
            return cls(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            facts = {name: Fact(**fact) for name, fact in data["facts"].items()}
            return cls(path, facts, list(data["earlier"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: is no record of a commissioning ({error!r})") from error

    def is_due(self, step: Step) -> bool:
        """Whether a step was not as expected so far."""
        fact = self.facts.get(step.name)
        return fact is None or fact.state != "as expected"

    def tries(self) -> Counter[str]:
        """Return how often each step was different, but for tries whose job may still run."""
        told = [*self.earlier, *({"step": name, **asdict(one)} for name, one in self.facts.items())]
        open_ended = (RequestError.exit_code, FateUnknownError.exit_code)
        return Counter(
            one["step"]
            for one in told
            if one["state"] == "different" and one["status"] not in open_ended
        )

    def set(self, name: str, fact: Fact) -> None:
        """Note a fact, and write the file."""
        before = self.facts.get(name)
        if before is not None and before.state != "begun":
            self.earlier.append({"step": name, **asdict(before)})
        self.facts[name] = fact
        self.path.parent.mkdir(parents=True, exist_ok=True)
        facts = {key: asdict(value) for key, value in self.facts.items()}
        write_atomically(self.path, json.dumps({"facts": facts, "earlier": self.earlier}, indent=1))


@dataclass(frozen=True)
class Row:
    """A step on the page."""

    step: Step
    fact: Fact | None
    """None before the step was tried to its end."""

    @classmethod
    def of(cls, step: Step, fact: Fact | None) -> "Row":
        """Return the row of a step; one that has only begun has found nothing."""
        return cls(step, None if fact is None or fact.state == "begun" else fact)

    @property
    def state(self) -> str:
        return self.fact.state if self.fact else NOT_SEEN

    @property
    def tone(self) -> Tone:
        if self.fact is None:
            return ""
        return "good" if self.state == "as expected" else "bad"

    @property
    def found(self) -> str:
        return self.fact.found if self.fact else NOT_SEEN

    @property
    def when(self) -> str:
        if self.fact is None:
            return ""
        took = f", {duration(self.fact.seconds)}" if self.fact.seconds else ""
        return f"{self.fact.at}{took}"

    @property
    def verdict(self) -> str:
        """Whether the guess was right; empty without a guess."""
        return _GUESSES[self.fact.guess if self.fact else None] if self.step.guess else ""

    @property
    def command(self) -> str:
        if not self.step.command:
            return "no command can ask for it; it is noted if it happens in a step above"
        return " ".join(("python -m jobs", *self.step.command))


@dataclass(frozen=True, kw_only=True)
class FactsPage(Page):
    """The content of the page."""

    rows: Sequence[Row]


def rows_of(steps: Sequence[Step], facts: Mapping[str, Fact]) -> list[Row]:
    """Return the rows of all steps, and of what happens without one."""
    return [Row.of(step, facts.get(step.name)) for step in (*steps, _TAKEN)]


def page_of(stack: str, workspace: str, rows: Sequence[Row], spent: str = "?") -> FactsPage:
    """Return the content of the page."""
    different = [row.step.name for row in rows if row.state == "different"]
    wrong = [row.step.name for row in rows if row.verdict == "wrong"]
    notes = [f"different from what was expected: {', '.join(different)}"] if different else []
    notes += [f"guesses that were wrong: {', '.join(wrong)}"] if wrong else []
    seen = sum(row.fact is not None for row in rows)
    return FactsPage(
        title=f"Commissioning of {stack}",
        heading=f"What was found on the platform {stack}",
        above=f"Commissioning, workspace {workspace}",
        lead=f"{seen} of {plural(len(rows), 'step')} seen, {spent} spent",
        notes=notes,
        rows=rows,
    )
