"""The counts of a manifest as plots, tables and remarks: images by class and by size."""

from collections.abc import Sequence
from itertools import chain
from statistics import median

from common.page.parts import Block, Cell, Columns, Plots, Table
from common.page.plots import LOGARITHMIC, Plot, Scale, Series, plot
from common.text import plural
from trainer.data.manifest import SIDES, Manifest, empty_classes

MAX_BARS = 20
"""Most classes that are shown as bars; with more, the counts are a curve."""
EXTREMES = 10
"""Number of largest and of smallest classes that are named."""
IMBALANCE = 10
"""Ratio of the largest to the smallest class from which the page remarks on it."""

_NAMED = 10
_TITLES = {"train": "training", "validation": "held-out", "test": "test"}


def split_title(name: str) -> str:
    """Return the name of a split as the page shows it."""
    return _TITLES.get(name, name)


def remarks(manifest: Manifest) -> list[str]:
    """Return sentences about possible problems with the classes."""
    sentences = []
    for name, split in manifest.splits.items():
        empty = empty_classes(manifest, name) if split.examples else []
        if empty:
            have = "has" if len(empty) == 1 else "have"
            more = f" and {len(empty) - _NAMED:,} more" if len(empty) > _NAMED else ""
            sentences.append(
                f"{plural(len(empty), 'class', 'classes')} {have} no {split_title(name)} images:"
                f" {'; '.join(empty[:_NAMED])}{more}."
            )
    (most, largest), (least, smallest) = _extremes(manifest)
    if _is_steep(manifest):
        sentences.append(
            f"The largest class has {most / least:,.0f} times as many training images as the"
            f" smallest: {largest} ({most:,}), {smallest} ({least:,})."
        )
    return sentences


def counts(manifest: Manifest) -> list[Block]:
    """Return images by class and by size: bars, or curves of the sorted counts of many classes."""
    sizes = _sizes(manifest)
    if len(manifest.classes) <= MAX_BARS:
        return [Columns([_bars(manifest), *sizes])]
    curve = _curves(manifest)
    drawn = [Plots([curve])] if curve else []
    return [Columns([*drawn, *sizes, *_extreme_classes(manifest)])]


def _bars(manifest: Manifest) -> Table:
    """Return the images of each class."""
    columns = [split.class_counts for split in manifest.splits.values()]
    return _amounts(
        "Class balance: images of each class; much smaller classes are learned less well",
        ["class", *map(split_title, manifest.splits)],
        manifest.classes,
        columns,
    )


def _sizes(manifest: Manifest) -> list[Table]:
    """Return the number of images by their sides; empty if the manifest does not have them."""
    known = {name: split.sides for name, split in manifest.splits.items() if split.sides.short}
    by_side = [
        [sum(n) for n in zip(*(getattr(s, side) for s in known.values()), strict=True)]
        for side in ("short", "long")
    ]
    used = [index for counts in by_side for index, n in enumerate(counts) if n]
    if not used:
        return []
    shown = slice(min(used), max(used) + 1)
    return [
        _amounts(
            "Image sizes: by the shorter and by the longer side, as stored;"
            f" {' and '.join(map(split_title, known))} images together",
            ["pixels", "short side", "long side"],
            [_bin(index) for index in range(len(SIDES))][shown],
            [counts[shown] for counts in by_side],
        )
    ]


def _amounts(
    caption: str, heads: Sequence[str], names: Sequence[str], columns: Sequence[Sequence[int]]
) -> Table:
    """Return a table of counts with a bar for each, in one colour a column."""
    most = max(chain([1], *columns))
    rows = [
        [
            name,
            *(
                Cell(f"{count:,}", "amount", count / most, colour)
                for colour, count in enumerate(of_name, 1)
            ),
        ]
        for name, *of_name in zip(names, *columns, strict=True)
    ]
    return Table(caption, heads, rows, "amounts")


def _extreme_classes(manifest: Manifest) -> list[Table]:
    rows = [(name, f"{count:,}") for count, name in _ordered(manifest, "train")]
    heads = ("class", "training images")
    return [
        Table(f"The {EXTREMES} largest classes", heads, rows[:EXTREMES], "numbers"),
        Table(f"The {EXTREMES} smallest classes", heads, rows[: -EXTREMES - 1 : -1], "numbers"),
    ]


def _curves(manifest: Manifest) -> Plot | None:
    # A logarithmic scale cannot show a class without images, so its curve ends before it.
    steep, shown, words = _is_steep(manifest), [], []
    for number, name in enumerate(manifest.splits, 1):
        ordered = _ordered(manifest, name)
        ranges = [(place, (count,) * 3) for place, (count, _) in enumerate(ordered, 1)]
        notes = [title for _, title in ordered]
        shown.append(Series(split_title(name), ranges, notes=notes, colour=number, marked=False))
        (most, largest), (least, smallest) = ordered[0], ordered[-1]
        middle = median(count for count, _ in ordered)
        words.append(
            f"{split_title(name)} images: from {most:,} ({largest}) to {least:,} ({smallest}),"
            f" median {middle:,.0f}."
        )
    scale = " The scale is logarithmic." if steep else ""
    return plot(
        "Class balance",
        f"Images of each class, sorted by number in each split.{scale}",
        "classes, the largest first",
        shown,
        scale=LOGARITHMIC if steep else Scale(from_zero=True),
        from_zero=True,
        summary=" ".join(words),
    )


def _is_steep(manifest: Manifest) -> bool:
    """Return whether most classes would lie on the axis of a linear plot."""
    (most, _), (least, _) = _extremes(manifest)
    return most > IMBALANCE * least


def _extremes(manifest: Manifest) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return number of training images and name of the largest and smallest non-empty class."""
    ordered = [entry for entry in _ordered(manifest, "train") if entry[0]]
    return ordered[0], ordered[-1]


def _ordered(manifest: Manifest, split: str) -> list[tuple[int, str]]:
    """Return images and name of each class, the largest first, equal ones in label order."""
    pairs = zip(manifest.splits[split].class_counts, manifest.classes, strict=True)
    return sorted(pairs, key=lambda pair: -pair[0])


def _bin(index: int) -> str:
    """Return the range of sides, in pixels, of a bin of `SIDES`."""
    if index + 1 == len(SIDES):
        return f"≥{SIDES[index]}"
    return f"{SIDES[index]}-{SIDES[index + 1] - 1}"
