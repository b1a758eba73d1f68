"""The page of facts of a commissioning: expected and found, step by step. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.page.parts import Page, Tone
from common.text import duration, plural
from jobs.commission.record import Fact
from jobs.commission.steps import PREEMPTION, Step

NOT_SEEN: Final = "not seen"
_GUESSES: Final[Mapping[bool | None, str]] = {True: "right", False: "wrong", None: NOT_SEEN}


@dataclass(frozen=True)
class Row:
    """A step on the page."""

    name: str
    state: str
    tone: Tone
    expected: str
    source: str
    found: str
    when: str
    guess: str
    verdict: str
    """Whether the guess was right; empty without a guess."""
    command: str


@dataclass(frozen=True, kw_only=True)
class FactsPage(Page):
    """The content of the page."""

    rows: Sequence[Row]


def rows_of(steps: Sequence[Step], facts: Mapping[str, Fact]) -> list[Row]:
    """Return the rows of all steps, and of what happens without one."""
    return [
        *(_row(step, facts.get(step.name)) for step in steps),
        _preemption(facts.get(PREEMPTION)),
    ]


def page_of(
    stack: str, workspace: str, steps: Sequence[Step], facts: Mapping[str, Fact]
) -> FactsPage:
    """Return the content of the page."""
    rows = rows_of(steps, facts)
    done = [row for row in rows if row.state in ("as expected", "different")]
    different = [row.name for row in done if row.state == "different"]
    wrong = [row.name for row in rows if row.verdict == "wrong"]
    notes = [f"different from what was expected: {', '.join(different)}"] if different else []
    notes += [f"guesses that were wrong: {', '.join(wrong)}"] if wrong else []
    return FactsPage(
        title=f"Commissioning of {stack}",
        heading=f"What was found on the platform {stack}",
        above=f"Commissioning, workspace {workspace}",
        lead=f"{len(done)} of {plural(len(rows), 'step')} seen",
        notes=notes,
        rows=rows,
    )


def _row(step: Step, fact: Fact | None) -> Row:
    known = fact is not None and fact.state != "begun"
    tone: Tone = "" if not known else "good" if fact and fact.state == "as expected" else "bad"
    verdict = _GUESSES[fact.guess if fact else None] if step.guess else ""
    when = f"{fact.at}, {duration(fact.seconds)}" if fact and known else ""
    return Row(
        name=step.name,
        state=fact.state if fact and known else NOT_SEEN,
        tone=tone,
        expected=step.expected,
        source=step.source,
        found=fact.found if fact and known else NOT_SEEN,
        when=when,
        guess=step.guess,
        verdict=verdict,
        command=" ".join(("python -m jobs", *step.command)),
    )


def _preemption(fact: Fact | None) -> Row:
    return Row(
        name=PREEMPTION,
        state=fact.state if fact else NOT_SEEN,
        tone="good" if fact else "",
        expected="Azure takes nodes away, and the run is submitted again and continues",
        source="docs/jobs.md, When a run is submitted again",
        found=fact.found if fact else NOT_SEEN,
        when=fact.at if fact else "",
        guess="a pre-empted job fails with PreemptionError (docs/stand-in.md, pre-emption)",
        verdict=_GUESSES[fact.guess if fact else None],
        command="nobody can ask for it; it is noted if it happens in a step above",
    )
