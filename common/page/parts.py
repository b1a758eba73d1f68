"""The content that all pages have in common, as data. Texts are plain; templates escape them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "good", "warning", "bad"]


@dataclass(frozen=True)
class Stat:
    """One of the figures at the top of a page."""

    label: str
    value: str | None
    """Formatted value; None if it is not known."""
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What every page has; those of a kind add their own."""

    title: str
    """Title of the document, for tabs and bookmarks."""
    heading: str
    above: str = ""
    """A line above the heading; may be empty."""
    lead: str
    """A line below the heading."""
    state: str = ""
    """Outcome in one word, such as finished; may be empty."""
    tone: Tone = ""
    notes: Sequence[str] = ()
    """Sentences that a reader must know before the figures."""
    stats: Sequence[Stat] = ()


@dataclass(frozen=True)
class Share:
    """One part of a bar that shows a whole."""

    name: str
    amount: str
    part: float
    """Fraction of the whole, 0 to 1."""
    colour: int
    """Number of its colour in the palette, from 1."""


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    """Cells of each row; None if a value is not known."""
