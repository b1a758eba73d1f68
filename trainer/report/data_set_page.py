"""`python -m trainer inspect`: write a page that shows a data set."""

import csv
import os
import shlex
from itertools import islice
from pathlib import Path

from common.errors import ConfigError
from common.files import write_atomically
from common.page.markup import moment, text
from common.text import plural, size
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.data.prepare.rejected import REJECTED
from trainer.errors import DataError
from trainer.options import InspectOptions
from trainer.report.contact_sheet import (
    FEW_CLASSES,
    Samples,
    contact_sheet,
    samples_per_class,
    take_samples,
)
from trainer.report.data_set_counts import (
    balance_plot,
    balance_tables,
    remarks,
    sizes_plot,
    split_title,
)
from trainer.report.page import figures, layout, notes, page, stats, table

PAGE = "inspect.html"
REJECTED_ROWS = 10
"""Largest number of lines of rejected.csv that are shown."""

_COLUMNS = ("split", "name", "reason")


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
    sheet = contact_sheet(manifest, samples, per_class, options.per_class)
    write_atomically(output, _page(folder, manifest, samples, sheet), errors="replace")
    return output


def _page(folder: Path, manifest: Manifest, samples: Samples, sheet: str) -> str:
    balance = balance_plot(manifest)
    sizes = sizes_plot(manifest, balance.height)
    plots = [balance] + ([sizes] if sizes else [])
    command = f"python -m trainer inspect {shlex.quote(str(folder))}"
    sections = {
        "counts": ("Classes and sizes", figures(plots) + balance_tables(manifest)),
        "samples": ("Samples", sheet),
        "origin": ("Where it comes from", _origin(folder, manifest) + _rejected(folder)),
    }
    head = (
        f'<div class="title"><h1>{text(folder.resolve().name)}</h1></div>\n'
        f'<p class="lead">Data set · version {manifest.version} ·'
        f" <code>{text(manifest.origin.command)}</code></p>\n"
    )
    source = f"Made from the manifest and some of the records by <code>{text(command)}</code>."
    overview = notes(_warnings(folder, manifest, samples)) + _overview(manifest)
    body = layout(head, overview, sections, source)
    more = ["filter.js"] if len(manifest.classes) > FEW_CLASSES else []
    return page(f"{folder.resolve().name} · data set", body, plots, more)


def _warnings(folder: Path, manifest: Manifest, samples: Samples) -> list[str]:
    undecodable = sum(
        sample.thumbnail is None for class_samples in samples.of_class for sample in class_samples
    )
    sentences = remarks(manifest)
    if undecodable:
        sentences.append(
            f"{plural(undecodable, 'sample')} cannot be decoded; python -m trainer verify"
            f" {shlex.quote(str(folder))} --deep finds all such images."
        )
    return sentences


def _overview(manifest: Manifest) -> str:
    """Return the figures at the top of the page."""
    splits = manifest.splits
    entries = [
        (
            f"{text(split_title(name))} images",
            f"{split.examples:,}",
            plural(len(split.shards), "shard"),
        )
        for name, split in splits.items()
    ]
    every = [split.bytes for split in splits.values()]
    images = sum(split.examples for split in splits.values())
    counts = splits["train"].class_counts
    smallest, largest = min(counts), max(counts)
    spread = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    encodings = sorted({name for split in splits.values() for name in split.encodings})
    entries += [
        ("classes", f"{len(manifest.classes):,}", f"of {spread} training images"),
        ("size", size(sum(every)), f"{size(sum(every) / images)} per image"),
        ("encoded as", text(", ".join(encodings)), ""),
    ]
    return stats(entries)


def _origin(folder: Path, manifest: Manifest) -> str:
    """Return how the data set was made, from what, and what its files contain."""
    origin = manifest.origin
    heads = ["split", "images", "shards", "size", "encoded as"]
    splits = [
        [
            text(name),
            f"{split.examples:,}",
            f"{len(split.shards):,}",
            size(split.bytes),
            text(", ".join(split.encodings)),
        ]
        for name, split in manifest.splits.items()
    ]
    done = [[text(what), f"{count:,}"] for what, count in origin.treatment.items()]
    facts = [
        ["folder", f"<code>{text(folder.resolve())}</code>"],
        ["command", f"<code>{text(origin.command)}</code>"],
        ["manifest written", moment((folder / FILE_NAME).stat().st_mtime)],
        ["version", f"<code>{manifest.version}</code>"],
        *([["hash of the inputs", f"<code>{text(origin.inputs)}</code>"]] if origin.inputs else []),
        ["mean of the pixels", _colours(manifest.normalization.mean)],
        ["their standard deviation", _colours(manifest.normalization.std)],
        ["first label", f"{manifest.first_label}"],
    ]
    return (
        '<div class="tables">\n'
        + table("Splits", heads, splits, "figures")
        + (
            table("What was done to the images", ["treatment", "images"], done, "figures")
            if done
            else ""
        )
        + "</div>\n"
        + table("What the manifest says", ["entry", "value"], facts, "facts")
    )


def _colours(values: tuple[float, float, float]) -> str:
    red, green, blue = values
    return f"red {red:.1f}, green {green:.1f}, blue {blue:.1f}, of 0 to 255"


def _rejected(folder: Path) -> str:
    """Return a table of the rejected files, if rejected.csv exists."""
    path = folder / REJECTED
    if not path.is_file():
        return ""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            rows = [
                [text(row[name] or "") for name in _COLUMNS]
                for row in islice(reader, REJECTED_ROWS)
            ]
            count = len(rows) + sum(1 for _ in reader)
    except (OSError, KeyError, csv.Error) as error:
        return f"<p>{REJECTED} cannot be read ({text(f'{type(error).__name__}: {error}')}).</p>\n"
    which = "all of them" if count == len(rows) else f"the first {len(rows)}"
    caption = f"{plural(count, 'file')} rejected, {which}, as in {REJECTED}"
    return table(caption, _COLUMNS, rows, "facts")
