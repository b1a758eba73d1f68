"""Signs of leaks between the splits of a data set: folders, or values of a column, that look like
patients and are in both. Standard library only.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from common.text import plural

_FEWEST: Final = 10
"""Fewest folders, or values, that may be patients; fewer are rather years, devices or places."""
_MOST: Final = 1_000_000
"""Folders, or values, from which they are not counted any more, which bounds the memory."""
_IDENTIFYING: Final = re.compile(
    r"patient|subject|person|proband|study|studie|series|case|fall|specimen|slide|donor|animal|tier"
    r"|group|gruppe|film|video|sequence|(?:^|[_ -])p?id$",
    re.IGNORECASE,
)
"""Parts of names of columns that say what several images are of."""


@dataclass(frozen=True)
class Column:
    """A column of a table whose values may say what several images are of."""

    name: str
    value: Callable[[str], str]
    """Returns the value of an image by its path; empty if it has none."""


def identifying(name: str, values: Iterable[str]) -> bool:
    """Return whether a column may say what several images are of: by its name, or as its values are
    letters with digits, or long numbers, that occur more than once. Of very many different ones it
    is not known, as they are no longer counted.

    Args:
        name: Name of the column.
        values: Its values, one for each image.
    """
    different, total = set[str](), 0
    for value in values:
        total += 1
        different.add(value)
        if len(different) > _MOST:
            return False
    different.discard("")
    if not _FEWEST <= len(different) <= total // 2:
        return False
    coded = sum(bool(re.search(r"[^\W\d].*\d{2}|\d{5}", value)) for value in different)
    return bool(_IDENTIFYING.search(name)) or 2 * coded > len(different)


@dataclass
class _Group:
    """Images that may belong together."""

    images: int = 0
    train: bool = False
    held_out: bool = False


def shared_folders(files: Iterable[tuple[str, str]], above: int, *, divided: bool) -> str:
    """Return a warning of folders of which the splits share many; empty if there are none.

    Args:
        files: Split and path of each image.
        above: Number of folders at the beginning of a path that are classes.
        divided: Whether the input itself is divided into splits.
    """
    levels: list[dict[str, _Group]] = []
    total = 0
    for split, path in files:
        total += 1
        folders = path.split("/")[above:-1]
        while len(levels) < len(folders):
            levels.append({})
        for depth in range(len(folders)):
            _count(levels[depth], "/".join(folders[: depth + 1]), split)
        if sum(map(len, levels)) > _MOST:
            return ""
    for depth, groups in enumerate(levels, 1):
        sentence = _sentence(groups, total)
        if not sentence:
            continue
        pattern = "^" + "[^/]+/" * above + "(" + "/".join(["[^/]+"] * depth) + ")/"
        where = "below the classes " if above else ""
        remedy = f"--group-by '{pattern}' keeps each in one split"
        if divided:
            remedy = (
                "move each into one split, or prepare a folder that is not divided, with"
                f" --group-by '{pattern}'"
            )
        return f"folders {where}{sentence}. If they are patients, films or the like, {remedy}"
    return ""


def shared_values(files: Iterable[tuple[str, str]], columns: Sequence[Column]) -> Iterator[str]:
    """Yield a warning of each column of whose values the splits share many.

    Args:
        files: Split and path of each image.
        columns: Columns that may say what several images are of.
    """
    by_column: list[dict[str, _Group]] = [{} for _ in columns]
    total = 0
    for split, path in files:
        total += 1
        for column, groups in zip(columns, by_column, strict=True):
            if value := column.value(path):
                _count(groups, value, split)
    for column, groups in zip(columns, by_column, strict=True):
        if words := _sentence(groups, total):
            yield (
                f"the values of the column {column.name!r} {words}. If they are patients, films or"
                f" the like, --group-column '{column.name}' keeps each in one split"
            )


def _count(groups: dict[str, _Group], name: str, split: str) -> None:
    group = groups.setdefault(name, _Group())
    group.images += 1
    if split == "train":
        group.train = True
    else:
        group.held_out = True


def _sentence(groups: Mapping[str, _Group], total: int) -> str:
    """Return the groups in several splits that look like patients; empty if there are none.

    Args:
        groups: Groups by name.
        total: Number of all images.
    """
    images = sum(group.images for group in groups.values())
    held_out = sum(group.held_out for group in groups.values())
    both = sum(group.train and group.held_out for group in groups.values())
    if len(groups) < _FEWEST or images < 2 * len(groups) or 2 * images < total or not both:
        return ""
    each = round(median(group.images for group in groups.values()))
    return (
        f"hold {plural(each, 'image')} each, and {both:,} of {held_out:,} held-out ones are in both"
        " splits, so metrics may be too good"
    )
