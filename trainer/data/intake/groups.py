"""Groups of images that stay in one split, such as those of one patient. Standard library only."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Final

from common.files import replacing

FILE: Final = "groups.json"
"""File of a data set with the groups of its held-out records."""


def pattern_problems(pattern: str | None) -> list[str]:
    """Return the fault of a `--group-by`."""
    try:
        re.compile(pattern or "")
    except re.error as error:
        return [f"--group-by: is not a regular expression ({error})"]
    return []


def by_pattern(pattern: str) -> Callable[[str], str]:
    """Return the function that finds the group of a name: the first group of a regular expression,
    or all that it matches if it has none; empty if it does not match.
    """
    compiled = re.compile(pattern)

    def group(name: str) -> str:
        match = compiled.search(name)
        if match is None:
            return ""
        return match[min(1, compiled.groups)] or ""

    return group


@dataclass(frozen=True)
class Group:
    """Images that stay together."""

    name: str
    counts: Mapping[int, int]
    """Number of images of each label."""


def hold_out(
    whole: Mapping[int, int],
    groups: Iterable[Group],
    of_label: Callable[[int], Iterable[Group]],
    fraction: float,
) -> Iterator[str]:
    """Choose the groups of a held-out split, and yield their names; memory grows with the labels.

    A group is taken, in the given order, if this brings its classes closer to their shares, and if
    all of them keep images for training. Then each class without a held-out image
    gets the smallest group that leaves some of all its classes for training.

    Args:
        whole: Number of images of each label.
        groups: Groups in random order.
        of_label: Returns the groups that have a label, the smallest first.
        fraction: Share of each class to hold out; at least one image, and not all.
    """
    wanted = {label: max(round(count * fraction), 1) for label, count in whole.items()}
    held: Counter[int] = Counter()

    def fits(group: Group) -> bool:
        return all(held[n] + count < whole[n] for n, count in group.counts.items())

    for group in groups:
        gain = sum(
            abs(wanted[n] - held[n]) - abs(wanted[n] - held[n] - count)
            for n, count in group.counts.items()
        )
        if gain > 0 and fits(group):
            held.update(group.counts)
            yield group.name
    for label in sorted(whole):
        # None of these is chosen already, as its images would be held out.
        smallest = None if held[label] else next(filter(fits, of_label(label)), None)
        if smallest:
            held.update(smallest.counts)
            yield smallest.name


def save_groups(folder: Path, groups: Iterable[tuple[str, int]]) -> None:
    """Write the groups of held-out records into the folder of a data set, if there are any.

    Args:
        folder: Folder of the data set.
        groups: Split and number of the group of each record, in the order of records.
    """
    first = next(groups := iter(groups), None)
    if first is None:
        return
    with replacing(folder / FILE) as file:
        for place, (split, of_split) in enumerate(
            groupby(chain([first], groups), key=lambda row: row[0])
        ):
            file.write(f"{', ' if place else '{'}{json.dumps(split)}: [".encode())
            file.writelines(
                f"{', ' if number else ''}{group}".encode()
                for number, (_, group) in enumerate(of_split)
            )
            file.write(b"]")
        file.write(b"}\n")


def read_groups(folder: Path | None) -> Mapping[str, list[int]]:
    """Return the groups of the records of each held-out split; empty if the data set has none."""
    try:
        groups: Mapping[str, list[int]] = json.loads(((folder or Path()) / FILE).read_text())
    except (OSError, ValueError):
        return {}
    return groups
