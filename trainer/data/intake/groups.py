"""Groups of images that stay in one split, such as those of one patient. Standard library only."""

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.files import write_atomically

FILE: Final = "groups.json"
"""File of a data set with the groups of its held-out records."""


def pattern_problems(pattern: str | None) -> list[str]:
    """Return what is wrong with a `--group-by`."""
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


def hold_out(groups: Sequence[Group], fraction: float) -> set[str]:
    """Choose the groups of the validation split.

    A group is taken, in the given order, if this brings its classes closer to their shares, and if
    all of them keep images for training. Then each class without a held-out image
    gets the smallest group that leaves some of all its classes for training.

    Args:
        groups: Groups in random order.
        fraction: Share of each class to hold out; at least one image, and not all.

    Returns:
        Names of the groups.
    """
    whole = _summed(groups)
    wanted = {label: max(round(count * fraction), 1) for label, count in whole.items()}
    held: Counter[int] = Counter()
    chosen: set[str] = set()

    def fits(group: Group) -> bool:
        return all(held[n] + count < whole[n] for n, count in group.counts.items())

    def take(group: Group) -> None:
        chosen.add(group.name)
        held.update(group.counts)

    for group in groups:
        gain = sum(
            abs(wanted[n] - held[n]) - abs(wanted[n] - held[n] - count)
            for n, count in group.counts.items()
        )
        if gain > 0 and fits(group):
            take(group)
    for label in sorted(whole):
        if held[label]:
            continue
        left = (g for g in groups if label in g.counts and g.name not in chosen and fits(g))
        smallest = min(left, key=lambda g: (sum(g.counts.values()), g.name), default=None)
        if smallest:
            take(smallest)
    return chosen


def number_groups(
    parts: Iterable[tuple[str, str, str]], left_out: Container[tuple[str, str]]
) -> dict[str, list[int]]:
    """Return the groups of the records of each split, in the order of records, as numbers that say
    nothing of their names.

    Args:
        parts: Split, record and group of each file, in the order of records.
        left_out: Split and record of those files that did not become records.
    """
    numbers: dict[str, dict[str, int]] = {}
    found: dict[str, list[int]] = {}
    for split, record, group in parts:
        if (split, record) not in left_out:
            known = numbers.setdefault(split, {})
            found.setdefault(split, []).append(known.setdefault(group, len(known)))
    return found


def save_groups(folder: Path, groups: Mapping[str, Sequence[int]]) -> None:
    """Write the groups of held-out records into the folder of a data set, if there are any."""
    if groups:
        write_atomically(folder / FILE, json.dumps(groups) + "\n")


def read_groups(folder: Path | None) -> Mapping[str, list[int]]:
    """Return the groups of the records of each held-out split; empty if the data set has none."""
    try:
        found: Mapping[str, list[int]] = json.loads(((folder or Path()) / FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found


def _summed(groups: Iterable[Group]) -> Counter[int]:
    total: Counter[int] = Counter()
    for group in groups:
        total.update(group.counts)
    return total
