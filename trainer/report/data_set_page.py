"""`ml-trainer inspect`: write a page that shows a data set."""

import csv
import os
import shlex
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from common.errors import ConfigError
from common.files import write_atomically
from common.page.parts import Block, Columns, Page, Section, Stat, Table, Text
from common.page.render import moment, render
from common.text import plural, size
from trainer.data.duplicates.section import sections as near_duplicates
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.data.prepare.rejected import REJECTED
from trainer.errors import DataError
from trainer.report.contact_sheet import (
    FEW_CLASSES,
    Samples,
    samples_per_class,
    take_samples,
)
from trainer.report.data_set_counts import counts, remarks, split_title
from trainer.report.intake_section import intake_blocks
from trainer.report.options import InspectOptions
from trainer.report.page import copies, count

PAGE = "inspect.html"
REJECTED_ROWS = 10
"""Largest number of lines of rejected.csv that are shown."""

_COLUMNS = ("split", "name", "reason")


@dataclass(frozen=True, kw_only=True)
class DataSetPage(Page):
    """The content of the page."""

    manifest: Manifest
    samples: Samples
    per_class: int
    """Samples that were looked for in each class."""
    searched: bool
    """Whether there are so many classes that the page needs a filter."""
    hint: str
    """Which samples are shown."""
    split_title = staticmethod(split_title)


def run(options: InspectOptions) -> None:
    """`ml-trainer inspect`: write the page, and print its path; see `write_inspection`."""
    if not options.folder:
        raise ConfigError(["inspect: DIR is missing; name the folder of the data set"])
    print(write_inspection(Path(options.folder), options))


def write_inspection(folder: Path, options: InspectOptions) -> Path:
    """Write a page about a data set, atomically.

    Args:
        folder: Folder of the data set.
        options: Output file, and number of images per class.

    Returns:
        The file that was written.

    Raises:
        ConfigError: The page cannot be written into the folder.
        DataError: The folder has no data set, or a record that was read is damaged.
        OSError: A shard cannot be read, or the page cannot be written.
    """
    manifest = load_manifest(folder)
    if "train" not in manifest.splits or not manifest.splits["train"].examples:
        raise DataError(f"{folder}: has no images in the split 'train'")
    if options.output is None and not os.access(folder, os.W_OK):
        raise ConfigError([f"--output: {folder} is not writable; choose a file elsewhere"])
    output = Path(options.output) if options.output else folder / PAGE
    per_class = samples_per_class(len(manifest.classes), options.per_class)
    samples = take_samples(folder, manifest, per_class)
    page = _page(folder, manifest, samples, per_class, options.per_class)
    write_atomically(output, render("trainer.report", "data_set.html", page=page), errors="replace")
    return output


def _page(
    folder: Path, manifest: Manifest, samples: Samples, per_class: int, requested: int
) -> DataSetPage:
    classes = len(manifest.classes)
    fewer = f" Not {requested}, as there are {classes:,} classes." if per_class < requested else ""
    name = folder.resolve().name
    return DataSetPage(
        title=f"{name} · data set",
        heading=name,
        lead=f"Data set · version {manifest.version} · {manifest.origin.command}",
        notes=_notes(folder, manifest, samples),
        stats=_stats(manifest),
        sections=[
            Section("counts", "Classes and sizes", counts(manifest)),
            Section("samples", "Samples"),
            Section("intake", "What left the files", intake_blocks(manifest.origin.intake)),
            *near_duplicates(folder, manifest),
            Section("origin", "Where it comes from", _origin(folder, manifest)),
        ],
        hint=f"Up to {plural(per_class, 'training image')} of each class, found among"
        f" {plural(samples.looked_at, 'image')} from all parts of the shards.{fewer} Point at an"
        " image to see its file, its size and its record.",
        manifest=manifest,
        samples=samples,
        per_class=per_class,
        searched=classes > FEW_CLASSES,
        command=f"ml-trainer inspect {shlex.quote(str(folder))}",
    )


def _notes(folder: Path, manifest: Manifest, samples: Samples) -> list[str]:
    """Return sentences that a reader must know before the figures."""
    undecodable = sum(sample.thumbnail is None for of in samples.of_class for sample in of)
    shown = sum(sample.thumbnail is not None for of in samples.of_class for sample in of)
    sentences = [*copies(shown), *remarks(manifest)]
    if undecodable:
        sentences.append(
            f"{plural(undecodable, 'sample')} cannot be decoded; ml-trainer verify"
            f" {shlex.quote(str(folder))} --deep finds all such images."
        )
    return sentences


def _stats(manifest: Manifest) -> list[Stat]:
    """Return the figures at the top of the page."""
    splits = manifest.splits.items()
    of_classes = manifest.splits["train"].class_counts
    smallest, largest = min(of_classes), max(of_classes)
    spread = f"{smallest:,} to " if smallest != largest else ""
    total = sum(split.bytes for _, split in splits)
    images = sum(split.examples for _, split in splits)
    encodings = sorted({encoding for _, split in splits for encoding in split.encodings})
    shards = {name: plural(len(split.shards), "shard") for name, split in splits}
    per_class = f"of {spread}{plural(largest, 'training image')}"
    return [
        *(Stat(f"{split_title(n)} images", count(s.examples), shards[n]) for n, s in splits),
        Stat("classes", count(len(manifest.classes)), per_class),
        Stat("size", size(total), f"{size(total / images)} per image"),
        Stat("encoded as", ", ".join(encodings)),
    ]


def _origin(folder: Path, manifest: Manifest) -> list[Block]:
    splits = [
        [
            *(name, f"{split.examples:,}", f"{len(split.shards):,}", size(split.bytes)),
            ", ".join(split.encodings),
        ]
        for name, split in manifest.splits.items()
    ]
    tables = [
        Table("Splits", ("split", "images", "shards", "size", "encoded as"), splits, "numbers")
    ]
    treated = [[name, f"{images:,}"] for name, images in manifest.origin.treatment.items()]
    if treated:
        heads = ("treatment", "images")
        tables.append(Table("What was done to the images", heads, treated, "numbers"))
    return [Columns(tables), _facts(folder, manifest), *_rejected(folder)]


def _facts(folder: Path, manifest: Manifest) -> Table:
    """Return how the data set was made, and the contents of its files."""
    origin = manifest.origin
    facts = [
        ("folder", str(folder.resolve())),
        ("command", origin.command),
        ("manifest written", moment((folder / FILE_NAME).stat().st_mtime)),
        ("version", manifest.version),
        *([("hash of the inputs", origin.inputs)] if origin.inputs else []),
        ("mean of the pixels", _colours(manifest.normalization.mean)),
        ("their standard deviation", _colours(manifest.normalization.std)),
        ("first label", f"{manifest.first_label}"),
    ]
    return Table("What the manifest says", ("entry", "value"), facts, "facts")


def _colours(values: tuple[float, float, float]) -> str:
    red, green, blue = values
    return f"red {red:.1f}, green {green:.1f}, blue {blue:.1f}, of 0 to 255"


def _rejected(folder: Path) -> list[Block]:
    """Return the first files that rejected.csv lists, if it exists."""
    path = folder / REJECTED
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            rows = [[row[name] or "" for name in _COLUMNS] for row in islice(reader, REJECTED_ROWS)]
            total = len(rows) + sum(1 for _ in reader)
    except (OSError, KeyError, csv.Error) as error:
        return [Text(f"{REJECTED} cannot be read ({type(error).__name__}: {error}).")]
    which = f", the first {len(rows)}" if total > len(rows) else ""
    caption = f"{plural(total, 'file')} rejected{which}, as in {REJECTED}"
    return [Table(caption, _COLUMNS, rows, "facts")] if rows else []
