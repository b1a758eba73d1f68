"""The section of a data set's page on near-duplicates."""

import csv
from pathlib import Path
from typing import Final

from common.page.parts import Section, Table, Text
from common.text import plural
from trainer.data.duplicates.check import COLUMNS, FILE, held_out_images, read_rows
from trainer.data.manifest import Manifest

ROWS: Final = 20
"""Most pairs that are shown."""


def sections(folder: Path, manifest: Manifest) -> list[Section]:
    """Return the section, if they were looked for."""
    title = "Near-duplicates of held-out images"
    try:
        rows = read_rows(folder)
    except (OSError, csv.Error) as error:
        problem = f"{FILE} cannot be read ({type(error).__name__}: {error})."
        return [Section("near-duplicates", title, [Text(problem)])]
    if rows is None:
        return []
    held_out = held_out_images(manifest)
    if not rows:
        none = f"The training split has none of {plural(held_out, 'held-out image')}."
        return [Section("near-duplicates", title, [Text(none)])]
    which = f", the first {ROWS}" if len(rows) > ROWS else ""
    caption = f"{plural(len(rows), 'pair')}{which}, as in {FILE}"
    heads = ("held-out image", "class", "training image", "its class", "different bits of 64")
    shown = [[row.get(key) or "" for key in COLUMNS] for row in rows[:ROWS]]
    return [
        Section(
            "near-duplicates",
            title,
            [
                Text(
                    f"{len(rows):,} of {plural(held_out, 'held-out image')}"
                    f" ({len(rows) / held_out:.1%}) are nearly in the training split as well. What"
                    " a network has seen it need not have understood, so metrics are too good."
                ),
                Table(caption, heads, shown, "facts"),
            ],
        )
    ]
