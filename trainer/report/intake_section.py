"""The section of a data set's page on what left the files that it was made of, and what did not."""

from common.page.parts import Block, Columns, Table, Text
from common.text import plural
from trainer.data.intake.record import (
    IN_PLACE,
    KEPT,
    Intake,
    groups_in_words,
    levels_in_words,
)

_METADATA = {
    KEPT: "kept, in every record, and not counted (--metadata keep)",
    IN_PLACE: "in the files, which are read where they are and are not changed",
}
_NAMES = {
    "kept": "names of the files, below the input; folders are part of them",
    "hashed": "keyed hashes; the key is in no output",
    "numbered": "numbers",
}


def intake_blocks(intake: Intake | None) -> list[Block]:
    """Return the content of the section."""
    if intake is None:
        return [
            Text(
                "It is not recorded which parts of the files were taken over: the data set is an"
                " embedded one, or an earlier version wrote it, which copied metadata and names."
            )
        ]
    facts = [
        ("pixels", "in every record; text that is part of a picture stays in it"),
        ("metadata", _METADATA.get(intake.metadata, "removed; those of each kind are below")),
        ("names of records", _NAMES.get(intake.names, intake.names)),
        ("names of classes", "in every record and in the manifest, and in exported models"),
    ]
    if intake.grouped:
        known = groups_in_words(intake.groups) if intake.groups else ""
        facts.append(("groups", known or "no group of images is in two splits"))
    if intake.levels:
        narrow = f"; {plural(intake.narrow, 'image')} use few of them" if intake.narrow else ""
        facts.append(("levels", f"{levels_in_words(intake.levels)}{narrow}"))
    if intake.reencode:
        short, quality = intake.reencode
        shrunk = f"encoded again, with a short side of at most {short:,} pixels, quality {quality}"
        facts.append(("sizes", shrunk))
    tables = [Table("What is in the data set", ("what", "where it is"), facts, "facts")]
    if intake.found:
        rows = [[kind, f"{count:,}"] for kind, count in intake.found.items()]
        heads = ("metadata in files", "images")
        what = "found in the records" if intake.metadata == IN_PLACE else "removed"
        tables.append(Table(f"Metadata that were {what}", heads, rows, "numbers"))
    return [Columns(tables)]
