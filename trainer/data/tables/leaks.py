"""Signs of leaks between the splits of a data set: folders, or values of a column, that look like
patients and are in both. They are counted on disk. Standard library only.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from common.text import plural
from trainer.data.prepare.on_disk import decoded, encoded, scratch_database

_FEWEST: Final = 10
"""Fewest folders, or values, that may be patients; fewer are rather years, devices or places."""
_IDENTIFYING: Final = re.compile(
    r"patient|subject|person|proband|study|studie|series|case|fall|specimen|slide|donor|animal|tier"
    r"|group|gruppe|film|video|sequence|(?:^|[_ -])p?id$",
    re.IGNORECASE,
)
"""Parts of names of columns that say what several images are of."""
_GROUP: Final = """
CREATE TABLE part AS SELECT level, count(*) AS images, min(train) = 0 AS held_out,
    min(train) != max(train) AS both FROM image GROUP BY level, name;
"""
_COUNTS: Final = """
SELECT level, count(*), sum(images), sum(held_out), sum(both) FROM part GROUP BY level
"""
_MEDIAN: Final = """
SELECT avg(images) FROM (SELECT images FROM part WHERE level = :level ORDER BY images
    LIMIT 2 - :count % 2 OFFSET (:count - 1) / 2)
"""


@dataclass(frozen=True)
class Column:
    """A column of a table whose values may say what several images are of."""

    name: str
    value: Callable[[str], str]
    """Returns the value of an image by its path; empty if it has none."""


def identifying(name: str, values: Iterable[str]) -> bool:
    """Return whether a column may say what several images are of: by its name, or as its values are
    letters with digits, or long numbers, that occur more than once.

    Args:
        name: Name of the column.
        values: Its values, one for each image.
    """
    database = scratch_database("CREATE TABLE item (value BLOB);")
    rows = ((encoded(value),) for value in values)
    total = database.executemany("INSERT INTO item VALUES (?)", rows).rowcount
    different = coded = 0
    # Grouping sorts, which is faster than DISTINCT if there are millions.
    for (value,) in database.execute("SELECT value FROM item WHERE value != x'' GROUP BY value"):
        different += 1
        coded += bool(re.search(r"[^\W\d].*\d{2}|\d{5}", decoded(value)))
    if not _FEWEST <= different <= total // 2:
        return False
    return bool(_IDENTIFYING.search(name)) or 2 * coded > different


def shared_folders(files: Iterable[tuple[str, str]], above: int, *, divided: bool) -> str:
    """Return a warning of folders of which the splits share many; empty if there are none.

    Args:
        files: Split and path of each image.
        above: Number of folders at the beginning of a path that are classes.
        divided: Whether the input itself is divided into splits.
    """

    def folders(path: str) -> Iterator[str]:
        return accumulate(path.split("/")[above:-1], "{}/{}".format)

    for level, sentence in _sentences(files, folders):
        depth = level + 1
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

    def values(path: str) -> Iterator[str]:
        return (column.value(path) for column in columns)

    for number, words in _sentences(files, values):
        name = columns[number].name
        yield (
            f"the values of the column {name!r} {words}. If they are patients, films or"
            f" the like, --group-column '{name}' keeps each in one split"
        )


def _sentences(
    files: Iterable[tuple[str, str]], groups: Callable[[str], Iterable[str]]
) -> Iterator[tuple[int, str]]:
    """Yield each level at which groups in several splits look like patients, and a sentence.

    Args:
        files: Split and path of each image.
        groups: Returns the groups of an image by its path, one for each level from 0; empty if it
            has none at a level.
    """
    database = scratch_database("CREATE TABLE image (level INTEGER, name BLOB, train INTEGER);")
    total = 0
    for split, path in files:
        total += 1
        rows = [(n, encoded(name), split == "train") for n, name in enumerate(groups(path)) if name]
        database.executemany("INSERT INTO image VALUES (?, ?, ?)", rows)
    database.executescript(_GROUP)
    for level, count, images, held_out, both in database.execute(_COUNTS).fetchall():
        if count < _FEWEST or images < 2 * count or 2 * images < total or not both:
            continue
        (median,) = database.execute(_MEDIAN, {"level": level, "count": count}).fetchone()
        yield (
            level,
            f"hold {plural(round(median), 'image')} each, and {both:,} of {held_out:,} held-out"
            " ones are in both splits, so metrics may be too good",
        )
