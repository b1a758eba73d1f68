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
        pairs = read_rows(folder, ROWS)
    except (OSError, csv.Error) as error:
        problem = f"{FILE} cannot be read ({type(error).__name__}: {error})."
        return [Section("near-duplicates", title, [Text(problem)])]
    if pairs is None:
        return []
    count, rows = pairs
    held_out = held_out_images(manifest)
    if not count:
        none = f"The training split has none of {plural(held_out, 'held-out image')}."
        return [Section("near-duplicates", title, [Text(none)])]
    which = f", the first {ROWS}" if count > ROWS else ""
    caption = f"{plural(count, 'pair')}{which}, as in {FILE}"
    heads = ("held-out image", "class", "training image", "its class", "different bits of 64")
    shown = [[row.get(key) or "" for key in COLUMNS] for row in rows]
    return [
        Section(
            "near-duplicates",
            title,
            [
                Text(
                    f"{count:,} of {plural(held_out, 'held-out image')}"
                    f" ({count / held_out:.1%}) are nearly in the training split as well. What"
                    " a network has seen it need not have understood, so metrics are too good."
                ),
                Table(caption, heads, shown, "facts"),
            ],
        )
    ]
