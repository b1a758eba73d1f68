"""The section of a run's page on its slices."""

from typing import Final

from common.page.parts import Cell, Section, Table, Text
from common.text import plural
from trainer.extras.slices.counts import FILE, Row, read
from trainer.report.page import percent
from trainer.report.run_data import Run

ROWS: Final = 30
"""Most slices that are shown."""


def sections(run: Run) -> list[Section]:
    """Return a section if the run has slices."""
    rows = read(run.path)
    if rows is None:
        return []
    if isinstance(rows, str):
        return [Section("slices", "Slices", [Text(rows)])]
    images, right = sum(row.images for row in rows), sum(row.right for row in rows)
    if not images:
        return []
    whole = right / images
    low = sum(row.interval[1] < whole for row in rows)
    worse = (
        f"{plural(low, 'slice')} of {len(rows):,} {'is' if low == 1 else 'are'} less accurate than"
        " the whole by more than chance explains: the 95 % interval ends below it."
        if low
        else f"None of {plural(len(rows), 'slice')} is less accurate than the whole by more than"
        " chance explains."
    )
    which = f"The {ROWS} least accurate of {len(rows):,}" if len(rows) > ROWS else "All"
    heads = ("slice", "right", "from", "to", "calibration error", "images")
    return [
        Section(
            "slices",
            "Slices",
            [
                Text(f"{whole:.2%} of {plural(images, 'held-out image')} are right. {worse}"),
                Table(
                    f"{which} slices, as in {FILE}, with 95 % intervals",
                    heads,
                    [_row(row, whole) for row in rows[:ROWS]],
                    "numbers",
                ),
            ],
        )
    ]


def _row(row: Row, whole: float) -> list[str | Cell | None]:
    low, high = row.interval
    name: str | Cell = f"{row.name} (low)" if high < whole else row.name
    shown = map(percent, (row.accuracy, low, high, row.calibration_error))
    return [name, *shown, f"{row.images:,}"]
