"""What there is to prepare: files that should be images, wherever they lie. Standard library only.

A listing yields an `Entry` for each file and a `Refusal` for whatever cannot even be tried, so that
nothing is left out in silence.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

HIDDEN = "is a hidden file"
"""Reason of a refusal that says nothing about the data set's quality."""


@dataclass(frozen=True)
class Entry:
    """One file that should be an image."""

    split: str
    """train or validation; empty if that is still to be decided."""
    name: str
    """Its path in the input, with `/`; unique in its split. Becomes image/filename."""
    label: int
    """Index of the class, from 0."""
    container: str
    """The file that holds its bytes: itself, or an archive."""
    offset: int
    """Where in the container it begins."""
    size: int
    """Its bytes."""
    changed: int = 0
    """When the container was changed last, in ns since 1970."""


@dataclass(frozen=True)
class Refusal:
    """A file that is left out."""

    split: str
    name: str
    reason: str


@dataclass(frozen=True)
class Inputs:
    """All that goes into one data set."""

    classes: tuple[str, ...]
    """Names in the order of labels."""
    entries: Callable[[], Iterator[Entry | Refusal]]
    """Lists the files; in any order, the same files each time while nothing is changed."""
    synsets: tuple[str, ...] = ()
    """WordNet's identifier of each class, if there are any."""
    notes: tuple[str, ...] = ()
    """What a person should know before anything is written."""
