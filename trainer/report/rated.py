"""The sections of a run's page on predictions that are rated image by image, from the tables and
the overlays that its task has written; see `trainer.tasks.overlays`.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from common.page.parts import Block, Figure, Gallery, Section, Table, Text
from common.text import plural
from trainer.report.page import image_file, kept_image, missing, percent
from trainer.report.run_data import Run

NONE: Final = "No predictions: they are written when a run with held-out images is finished."
SHOWN: Final = 12
"""Largest number of images that are shown."""
Row = Mapping[str, str]
"""A line of a table, by column."""


@dataclass(frozen=True)
class Rated:
    """The words of the sections for a task."""

    tables: tuple[str, ...]
    """Files in the folder of a run; that of the images, with their ratings, first."""
    titles: tuple[str, str]
    """Titles of the sections on the classes and on the worst images."""
    hint: str
    """The meaning of the figures of the classes."""
    column: str
    """Column of the ratings."""
    rating: str
    """Name of a rating."""
    worst: str
    """Which images are the worst."""
    shows: str
    """The content of an overlay."""
    lines: Callable[[Row], Sequence[tuple[str, str, str]]] = lambda _: ()
    """Lines below an overlay besides the rating."""
    pixelated: bool = False
    """Whether overlays are enlarged without smoothing."""

    def sections(self, run: Run, build: Callable[..., Sequence[Block]]) -> list[Section]:
        """Return both sections; `build` returns the blocks on the classes, from the tables."""

        def blocks(noted: Mapping[str, Any], *tables: Sequence[Row]) -> Sequence[Sequence[Block]]:
            images = plural(len(tables[0]), f"{run.images} image")
            about = Text(f"{images} after step {noted['step']:,}. {self.hint}", hint=True)
            worst = Text(f"{self.worst}{missing(noted.get('problem'))}", hint=True)
            rated = sorted((float(row[self.column]), int(row["index"]), row) for row in tables[0])
            figures = [self._figure(run, *example) for example in rated[:SHOWN]]
            return [about, *build(*tables)], [worst, Gallery(figures, "mistakes wide")]

        titles = {"confusion": self.titles[0], "mistakes": self.titles[1]}
        return predicted_sections(run, self.tables, titles, blocks)

    def _figure(self, run: Run, value: float, index: int, row: Row) -> Figure:
        rating = ("image", f"{index:,}", f"{self.rating} {value:.2%}")
        image = image_file(run.path / "overlays" / str(index))
        figure = kept_image(image, index, self.shows, [rating, *self.lines(row)])
        return replace(figure, pixelated=True) if self.pixelated else figure


def class_table(
    title: str, classes: Sequence[Row], parts: Mapping[str, str], counts: Mapping[str, str]
) -> Table:
    """Return a table with a row for each class.

    Args:
        title: Title of the table.
        classes: Lines of the table of the classes, with the column `class`.
        parts: Columns of fractions, which may be empty, and their heads.
        counts: Columns of whole numbers, and their heads.
    """
    rows = [
        [
            row["class"],
            *(percent(float(row[key])) if row[key] else None for key in parts),
            *(f"{int(row[key]):,}" for key in counts),
        ]
        for row in classes
    ]
    return Table(title, ("class", *parts.values(), *counts.values()), rows, "numbers")


def predicted_sections(
    run: Run,
    tables: Sequence[str],
    titles: Mapping[str, str],
    build: Callable[..., Sequence[Sequence[Block]]],
) -> list[Section]:
    """Return the sections of a run's page on predictions, each with a sentence if there are none.

    Args:
        run: The run.
        tables: Files in its folder.
        titles: Titles of the sections by their names.
        build: Returns the blocks of each section, given the last event of the predictions and the
            lines of each table.
    """
    noted = run.of("predictions")
    if not (run.path / tables[0]).is_file() or not noted:
        blocks: Sequence[Sequence[Block]] = [[Text(NONE)]] * len(titles)
    else:
        try:
            blocks = build(noted[-1], *(_rows(run, name) for name in tables))
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            broken = f"The predictions cannot be read ({type(error).__name__}: {error})."
            blocks = [[Text(broken)]] * len(titles)
    named = zip(titles.items(), blocks, strict=True)
    return [Section(name, title, of_section) for (name, title), of_section in named]


def _rows(run: Run, name: str) -> list[Row]:
    with (run.path / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
