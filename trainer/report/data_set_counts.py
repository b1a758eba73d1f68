"""The counts of a manifest as plots, tables and remarks: images by class and by size."""

from collections.abc import Sequence
from statistics import median

import plotly.graph_objects as go

from common.page.parts import Table
from common.text import plural
from trainer.data.manifest import SIDES, Manifest, empty_classes
from trainer.report.plots import AXIS, Plot, plain, styled, to_json

MAX_BARS = 20
"""Most classes that are shown as bars; with more, the counts are a curve."""
EXTREMES = 10
"""Number of largest and of smallest classes that are named."""
IMBALANCE = 10
"""Ratio of the largest to the smallest class from which the page remarks on it."""

_NAMED, _LONG_NAME = 10, 24
_TITLES = {"train": "training", "validation": "held-out"}


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


def balance_plot(manifest: Manifest) -> Plot:
    """Plot the images of each class: bars, or a curve of the sorted counts of many classes."""
    many = len(manifest.classes) > MAX_BARS
    figure = _curves(manifest) if many else _bars(manifest)
    words = []
    for name, split in manifest.splits.items():
        if many:
            ordered = _ordered(manifest, name)
            (most, largest), (least, smallest) = ordered[0], ordered[-1]
            middle = median(count for count, _ in ordered)
            listed = f"from {most:,} ({largest}) to {least:,} ({smallest}), median {middle:,.0f}"
        else:
            pairs = zip(manifest.classes, split.class_counts, strict=True)
            listed = ", ".join(f"{title} {count:,}" for title, count in pairs)
        words.append(f"{split_title(name)} images: {listed}.")
    if many:
        scale = " The scale is logarithmic." if _is_steep(manifest) else ""
        reading = f"Images of each class, sorted by number in each split.{scale}"
        height = None
    else:
        reading = "Images of each class; much smaller classes are learned less well."
        height = max(18, 1.4 * len(manifest.classes) + 5)
    return Plot("balance", "Class balance", reading, " ".join(words), to_json(figure), height)


def extremes(manifest: Manifest) -> list[Table]:
    """Return tables of the largest and smallest classes if there are too many for bars."""
    if len(manifest.classes) <= MAX_BARS:
        return []
    rows = [(name, f"{count:,}") for count, name in _ordered(manifest, "train")]
    heads = ("class", "training images")
    return [
        Table(f"The {EXTREMES} largest classes", heads, rows[:EXTREMES]),
        Table(f"The {EXTREMES} smallest classes", heads, rows[: -EXTREMES - 1 : -1]),
    ]


def sizes_plot(manifest: Manifest, height: float | None) -> Plot | None:
    """Plot the number of images by their sides; return None if the manifest does not have them.

    Args:
        manifest: Manifest of the data set.
        height: Height of the plot, in rem; None is that of the style sheet.
    """
    known = {name: split.sides for name, split in manifest.splits.items() if split.sides.short}
    by_side = {
        "short side": [sum(n) for n in zip(*(s.short for s in known.values()), strict=True)],
        "long side": [sum(n) for n in zip(*(s.long for s in known.values()), strict=True)],
    }
    used = [index for counts in by_side.values() for index, n in enumerate(counts) if n]
    if not used:
        return None
    # With an empty bin on each side, so that a single bin does not fill the plot.
    shown = range(max(min(used) - 1, 0), min(max(used) + 2, len(SIDES)))
    labels = [_bin(index) for index in shown]
    traces = [
        go.Bar(
            x=labels,
            y=[counts[index] for index in shown],
            name=side,
            marker={"color": f"var(--series-{number})"},
            hovertemplate="%{x} pixels: %{y:,} images<extra>%{fullData.name}</extra>",
        )
        for number, (side, counts) in enumerate(by_side.items(), 1)
    ]
    figure = styled(traces)
    figure.update_layout(
        bargap=0.15,
        xaxis=AXIS
        | {
            "type": "category",
            "showgrid": False,
            "tickfont": {"size": 11},
            "title": {"text": "pixels", "standoff": 8},
        },
        yaxis=AXIS | {"tickformat": ",~d", "rangemode": "tozero"},
    )
    words = [_in_words(side, counts) for side, counts in by_side.items()]
    which = " and ".join(split_title(name) for name in known)
    reading = f"By the shorter and by the longer side, as stored; {which} images together."
    return Plot("sizes", "Image sizes", reading, " ".join(words), to_json(figure), height)


def _bars(manifest: Manifest) -> go.Figure:
    numbers = list(range(len(manifest.classes)))
    traces = [
        go.Bar(
            orientation="h",
            x=split.class_counts,
            y=numbers,
            customdata=[plain(name) for name in manifest.classes],
            name=plain(split_title(name)),
            marker={"color": f"var(--series-{number})"},
            hovertemplate="%{customdata}: %{x:,} images<extra>%{fullData.name}</extra>",
        )
        for number, (name, split) in enumerate(manifest.splits.items(), 1)
    ]
    figure = styled(traces)
    figure.update_layout(
        bargap=0.25,
        hovermode="closest",
        # Numbers instead of names, because two classes may have the same shortened name.
        yaxis=AXIS
        | {
            "tickvals": numbers,
            "ticktext": [plain(_shortened(name)) for name in manifest.classes],
            "autorange": "reversed",
            "showgrid": False,
        },
        xaxis=AXIS
        | {"tickformat": ",~d", "rangemode": "tozero", "title": {"text": "images", "standoff": 8}},
    )
    return figure


def _curves(manifest: Manifest) -> go.Figure:
    # A logarithmic scale cannot show a class without images.
    steep, traces = _is_steep(manifest), []
    for number, name in enumerate(manifest.splits, 1):
        ordered = _ordered(manifest, name)
        traces.append(
            go.Scatter(
                x=list(range(1, len(ordered) + 1)),
                y=[None if steep and not count else count for count, _ in ordered],
                customdata=[plain(title) for _, title in ordered],
                name=plain(split_title(name)),
                mode="lines",
                line={"color": f"var(--series-{number})", "width": 2},
                hovertemplate="%{customdata}: %{y:,} images<extra>%{fullData.name}</extra>",
            )
        )
    figure = styled(traces)
    figure.update_layout(
        hovermode="x",
        xaxis=AXIS
        | {"showgrid": False, "title": {"text": "classes, the largest first", "standoff": 8}},
        yaxis=AXIS
        | {"tickformat": ",~d"}
        | ({"type": "log", "dtick": 1} if steep else {"rangemode": "tozero"}),
    )
    return figure


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


def _in_words(side: str, counts: Sequence[int]) -> str:
    listed = ", ".join(f"{_bin(index)} pixels {n:,}" for index, n in enumerate(counts) if n)
    return f"{side}: {listed}."


def _shortened(name: str) -> str:
    return name if len(name) <= _LONG_NAME else f"{name[: _LONG_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"
