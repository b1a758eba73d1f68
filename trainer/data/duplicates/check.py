"""Looks for near-duplicates in a data set, in parallel, and lists them."""

import csv
import shlex
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from common.errors import ConfigError
from common.files import write_table
from common.text import duration, plural
from trainer.data.duplicates.hashes import Array, perceptual_hash
from trainer.data.duplicates.leaf import DuplicateOptions
from trainer.data.duplicates.options import NearDuplicatesOptions
from trainer.data.duplicates.search import ROW, HashFile, find_matches
from trainer.data.example import BrokenRecordError, Record
from trainer.data.formats.record_format import RecordFormat, record_format
from trainer.data.manifest import Manifest, Shard, load_manifest
from trainer.data.pixels.encoded_image import as_used
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.on_disk import decoded, encoded
from trainer.data.prepare.output import only_writer
from trainer.data.prepare.pool import Advance, WorkThrough, work_through
from trainer.errors import DataError

FILE: Final = "near-duplicates.csv"
COLUMNS: Final = ("held_out", "class", "training", "training_class", "different_bits")
MOST_UNASKED: Final = 20_000
"""Most images of a data set in which near-duplicates are looked for by default."""
_REPORT_EVERY: Final = 64
_SHOWN: Final = 5
_TITLES: Final = """
CREATE INDEX by_training ON match (training);
CREATE TABLE title (split TEXT, place INTEGER, name BLOB, class BLOB, PRIMARY KEY (split, place))
    WITHOUT ROWID;
"""
_TITLED: Final = """
SELECT own.name, own.class, other.name, other.class, distance FROM match
    JOIN title AS own ON own.split = ? AND own.place = held_out
    JOIN title AS other ON other.split = 'train' AND other.place = training ORDER BY held_out
"""

Row: TypeAlias = tuple[str, str, str, str, int]
"""Values of `COLUMNS`."""


@dataclass(frozen=True)
class _Part:
    """The records of a shard."""

    folder: Path
    shard: Shard
    format: RecordFormat
    split: str
    begin: int
    """Place of its first record in the split."""
    treated: bool
    """Whether images are treated whenever they are read."""
    levels: tuple[float, float] | None
    """See `Manifest.levels`."""

    def records(self) -> Iterator[Record]:
        """Yield the records in their order.

        Raises:
            DataError: One cannot be read.
        """
        reader, path = self.format.reader(1), self.folder / self.shard.file
        try:
            for block, count in enumerate(self.format.blocks(self.shard)):
                for values in reader.records(str(path), self.shard, block, 0, count):
                    yield self.format.record(values)
        except (BrokenRecordError, OSError) as error:
            raise DataError(f"{path}: cannot be read ({error})") from error


def run(options: NearDuplicatesOptions) -> None:
    """`ml-trainer near-duplicates DIR`: write near-duplicates.csv, and print how many.

    Raises:
        ConfigError: No folder is given.
        DataError: The folder has no data set with a validation split, or a record cannot be read.
        UserError: Another process is writing there.
    """
    if not options.folder:
        raise ConfigError(["near-duplicates: DIR is missing; name the folder of the data set"])
    folder = Path(options.folder)
    manifest = load_manifest(folder)
    if "validation" not in manifest.splits:
        raise DataError(f"{folder}: has no validation split")
    files = manifest.folder(folder)
    with only_writer(folder):
        rows = find(files, manifest, options.near_distance, options.processes, work_through)
        tell(folder, manifest, rows)


def check_prepared(
    folder: Path, manifest: Manifest, options: DuplicateOptions, work: WorkThrough
) -> None:
    """Look for near-duplicates in a data set whose shards are written.

    Raises:
        DataError: There are some, and they are refused.
    """
    images, wanted = sum(split.examples for split in manifest.splits.values()), True
    if options.near_duplicates == "auto" and images > MOST_UNASKED:
        wanted = False
        print(
            f"near-duplicates: not looked for in more than {MOST_UNASKED:,} images; `ml-trainer"
            f" near-duplicates {shlex.quote(str(folder))}` looks for them"
        )
    if options.near_duplicates == "off" or not wanted:
        (folder / FILE).unlink(missing_ok=True)
        return
    processes, begun = getattr(options, "processes", 0), time.monotonic()
    rows = find(folder, manifest, options.near_distance, processes, work)
    count, first = tell(folder, manifest, rows)
    if (seconds := time.monotonic() - begun) >= 1:
        print(
            f"near-duplicates: looked for in {duration(seconds)} (--near-duplicates off does not)"
        )
    if count and options.near_duplicates == "refuse":
        shown = "".join(f"\n  - {own} is nearly {other}" for own, _, other, *_ in first)
        raise DataError.of(
            f"{folder}: {plural(count, 'held-out image')} of"
            f" {held_out_images(manifest):,} have near-duplicates in the training"
            f" split, and --near-duplicates refuse accepts none; {folder / FILE} lists them:{shown}"
            "\nWith --near-duplicates report the same command continues; or split by the subject"
            " of the images (--group-by), or remove one of each pair, and start again with an"
            " empty --output"
        )


def find(
    folder: Path, manifest: Manifest, distance: int, processes: int, work: WorkThrough
) -> Iterator[Row]:
    """Yield a row for each held-out image with a near-duplicate, in the order of records. Memory
    does not grow with the images.

    Args:
        folder: Folder of the files.
        manifest: Their manifest.
        distance: Most bits in which near-duplicates differ.
        processes: Number of processes; 0 is one per core.
        work: Does the work in parallel.
    """
    form = record_format(manifest)
    parts = [
        _Part(folder, shard, form, name, end - shard.examples, bool(split.treated), manifest.levels)
        for name, split in manifest.splits.items()
        for shard, end in zip(
            split.shards, accumulate(shard.examples for shard in split.shards), strict=True
        )
    ]
    images = sum(split.examples for split in manifest.splits.values())
    hashes = {split: HashFile() for split in manifest.splits}
    with work(_hash, parts, images, "looking for near-duplicates", processes) as results:
        for split, rows in results:
            hashes[split].add(rows)
    for split in _held_out(manifest):
        matches = find_matches(hashes["train"], hashes[split], distance)
        matches.executescript(_TITLES)
        for part in parts:
            if part.split in ("train", split):
                matches.executemany("INSERT INTO title VALUES (?, ?, ?, ?)", _titles(part, matches))
        for *texts, bits in matches.execute(_TITLED, (split,)):
            own, its_class, other, other_class = map(decoded, texts)
            yield own, its_class, other, other_class, bits


def _held_out(manifest: Manifest) -> list[str]:
    return [name for name in manifest.splits if name != "train"]


def held_out_images(manifest: Manifest) -> int:
    """Return the number of images that are held out, for evaluation or for tests."""
    return sum(manifest.splits[name].examples for name in _held_out(manifest))


def tell(folder: Path, manifest: Manifest, rows: Iterable[Row]) -> tuple[int, list[Row]]:
    """Write near-duplicates.csv, even without any, and print how many there are.

    Returns:
        Number of rows, and the first of them.
    """
    count, others, first = 0, 0, list[Row]()

    def counted() -> Iterator[Row]:
        nonlocal count, others
        for row in rows:
            count, others = count + 1, others + (row[1] != row[3])
            if count <= _SHOWN:
                first.append(row)
            yield row

    # The file is open during the search, so that a search that was killed has left a part of it.
    for partial in folder.glob(f".{FILE}-*.partial"):
        partial.unlink(missing_ok=True)
    write_table(folder / FILE, COLUMNS, counted(), errors="surrogateescape")
    held_out = held_out_images(manifest)
    if not count:
        print(f"near-duplicates: none of {plural(held_out, 'held-out image')}")
        return count, first
    of_others = f", {others:,} of them under another class" if others else ""
    print(
        f"near-duplicates: {count:,} of {plural(held_out, 'held-out image')}"
        f" ({count / held_out:.1%}) are nearly in the training split as well{of_others}, so"
        f" metrics are too good; {folder / FILE} lists them"
    )
    return count, first


def _hash(part: _Part, advance: Advance) -> tuple[str, Array]:
    """Return the split of a shard, and the hashes of its images with their places."""
    rows: list[tuple[int, int]] = []
    place = -1
    for place, record in enumerate(part.records()):
        value = _hash_of(part, record.encoded)
        if value is not None:
            rows.append((value, part.begin + place))
        if (place + 1) % _REPORT_EVERY == 0:
            advance(_REPORT_EVERY)
    advance((place + 1) % _REPORT_EVERY)
    return part.split, np.array(rows, ROW)


def _hash_of(part: _Part, encoded: bytes) -> int | None:
    try:
        return perceptual_hash(as_used(encoded, part.levels) if part.treated else encoded)
    except RejectedError:
        return None


def _titles(part: _Part, matches: sqlite3.Connection) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Yield split, place, name and class of those records of a shard that are in a pair. A shard
    without any is not read.
    """
    column = "training" if part.split == "train" else "held_out"
    query = f"SELECT {column} FROM match WHERE {column} >= ? AND {column} < ?"  # noqa: S608
    bounds = part.begin, part.begin + part.shard.examples
    wanted = {place for (place,) in matches.execute(query, bounds)}
    for place, record in enumerate(part.records() if wanted else (), part.begin):
        if place in wanted:
            name = record.filename or f"{part.shard.file}, record {place - part.begin}"
            yield part.split, place, encoded(name), encoded(record.text or str(record.label))


def read_rows(folder: Path, most: int) -> tuple[int, list[dict[str, Any]]] | None:
    """Return the number of lines of near-duplicates.csv, and the first of them; None if they were
    not looked for.

    Raises:
        OSError: The file cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.DictReader(file)
        first = list(islice(rows, most))
        return len(first) + sum(1 for _ in rows), first
