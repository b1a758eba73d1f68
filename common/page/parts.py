"""The content of pages as data: a page has sections, a section has blocks. Texts are plain; the
templates escape them. Pure.

Each kind of block is laid out by the macro of `parts.html` that its `macro` names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from common.page.plots import Plot

Tone = Literal["", "good", "warning", "bad"]


@dataclass(frozen=True)
class Stat:
    """One of the figures at the top of a page."""

    label: str
    value: str | None
    """Formatted value; None if it is not known."""
    remark: str = ""


class Block:
    """A part of a section."""

    macro: ClassVar[str]


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    macro = "text"
    text: str
    hint: bool = False
    """Whether it explains what follows, in small letters."""


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its text."""

    text: str | None
    kind: str = ""
    """Class of the style sheet, such as amount (with a bar), hit or miss."""
    part: float = 0.0
    """Length of the bar, or strength of the colour: 0 to 1."""
    colour: int = 0
    """Number of its colour in the palette, from 1; 0 without one."""


@dataclass(frozen=True)
class Table(Block):
    """A table whose first column names the rows. It scrolls if it is too wide."""

    macro = "table"
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Cell | None]]
    """Cells of each row; None if a value is not known."""
    kind: str = ""
    """Classes of the style sheet, such as numbers or facts."""
    code: bool = False
    """Whether the names of the rows are code."""


@dataclass(frozen=True)
class Columns(Block):
    """Tables and plots side by side, where there is room."""

    macro = "columns"
    blocks: Sequence[Block]


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
class Shares(Block):
    """A bar that shows a whole, with its title."""

    macro = "share_bar"
    title: str
    parts: Sequence[Share]


@dataclass(frozen=True)
class Plots(Block):
    """Plots side by side, where there is room."""

    macro = "plots"
    plots: Sequence[Plot]


@dataclass(frozen=True)
class Figure:
    """An image with lines of text."""

    url: str | None
    """URL that contains the image; None if there is none."""
    text: str
    """The content of the image, or the reason why there is none."""
    lines: Sequence[tuple[str, str, str]] = ()
    """Label, text and value of each line."""
    pixelated: bool = False
    """Whether it is enlarged without smoothing."""


@dataclass(frozen=True)
class Gallery(Block):
    """Images in a grid."""

    macro = "gallery"
    figures: Sequence[Figure]
    kind: str = ""
    """Classes of the style sheet."""


@dataclass(frozen=True)
class Details(Block):
    """Blocks that a reader can open."""

    macro = "details"
    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Code(Block):
    """A command or other text of a program."""

    macro = "code"
    text: str


@dataclass(frozen=True)
class Section:
    """A section of a page."""

    id: str
    title: str
    blocks: Sequence[Block] = ()
    """Its content; if there is none, the page's template has a block with the section's id."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What every page has; those of a kind may add their own."""

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
    warnings: Sequence[str] = ()
    """Reasons to doubt the subject of the page, shown above everything else."""
    notes: Sequence[str] = ()
    """Sentences that a reader must know before the figures."""
    stats: Sequence[Stat] = ()
    sections: Sequence[Section] = ()
    command: str = ""
    """The command that writes the page again; may be empty."""

    @property
    def titles(self) -> Mapping[str, str]:
        """Titles of the sections, by id."""
        return {section.id: section.title for section in self.sections}

    def blocks_of(self, id_: str) -> Sequence[Block]:
        """Return the content of a section; empty if the page's template has it."""
        return next((section.blocks for section in self.sections if section.id == id_), ())

    @property
    def has_plots(self) -> bool:
        """Whether the page has sections with plots, for which it has a script."""
        blocks = [block for section in self.sections for block in section.blocks]
        inner = [b for block in blocks if isinstance(block, Columns) for b in block.blocks]
        return any(isinstance(block, Plots) for block in (*blocks, *inner))
