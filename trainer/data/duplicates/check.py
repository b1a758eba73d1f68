"""Looks for near-duplicates in a data set, in parallel, and lists them."""

import csv
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.errors import ConfigError
from common.files import write_table
from common.text import duration, plural
from trainer.data.duplicates.hashes import Array, find_matches, perceptual_hash
from trainer.data.duplicates.leaf import DuplicateOptions
from trainer.data.duplicates.options import NearDuplicatesOptions
from trainer.data.example import BrokenRecordError, Record
from trainer.data.formats.record_format import RecordFormat, record_format
from trainer.data.manifest import Manifest, Shard, load_manifest
from trainer.data.pixels.encoded_image import as_used
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.pool import Advance, WorkThrough, work_through
from trainer.errors import DataError

FILE: Final = "near-duplicates.csv"
COLUMNS: Final = ("held_out", "class", "training", "training_class", "different_bits")
MOST_UNASKED: Final = 20_000
"""Most images of a data set in which near-duplicates are looked for by default."""
_TOLD_EVERY: Final = 64
_SHOWN: Final = 5


@dataclass(frozen=True)
class _Part:
    """The records of a shard."""

    folder: Path
    shard: Shard
    format: RecordFormat
    number: int
    """Number of the shard in its split."""
    split: str
    treated: bool
    """Whether images are treated whenever they are read."""
    levels: tuple[int, int] | None
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
    """
    if not options.folder:
        raise ConfigError(["near-duplicates: DIR is missing; name the folder of the data set"])
    folder = Path(options.folder)
    manifest = load_manifest(folder)
    if "validation" not in manifest.splits:
        raise DataError(f"{folder}: has no validation split")
    files = manifest.folder(folder)
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
    tell(folder, manifest, rows)
    if (seconds := time.monotonic() - begun) >= 1:
        print(
            f"near-duplicates: looked for in {duration(seconds)} (--near-duplicates off does not)"
        )
    if rows and options.near_duplicates == "refuse":
        shown = "".join(f"\n  - {own} is nearly {other}" for own, _, other, *_ in rows[:_SHOWN])
        raise DataError(
            f"{folder}: {plural(len(rows), 'held-out image')} of"
            f" {held_out_images(manifest):,} have near-duplicates in the training"
            f" split, and --near-duplicates refuse accepts none; {folder / FILE} lists them:{shown}"
            "\nWith --near-duplicates report the same command continues; or split by the subject"
            " of the images (--group-by), or remove one of each pair, and start again with an"
            " empty --output"
        )


def find(
    folder: Path, manifest: Manifest, distance: int, processes: int, work: WorkThrough
) -> list[tuple[str, str, str, str, int]]:
    """Return a row of `COLUMNS` for each held-out image with a near-duplicate, and write them.

    Args:
        folder: Folder of the files.
        manifest: Their manifest.
        distance: Most bits in which near-duplicates differ.
        processes: Number of processes; 0 is one per core.
        work: Does the work in parallel.
    """
    form = record_format(manifest)
    parts = [
        _Part(folder, shard, form, number, name, bool(split.treated), manifest.levels)
        for name, split in manifest.splits.items()
        for number, shard in enumerate(split.shards)
    ]
    images = sum(split.examples for split in manifest.splits.values())
    hashed: dict[tuple[str, int], tuple[Array, Array]] = {}
    with work(_hash, parts, images, "looking for near-duplicates", processes) as results:
        for split, number, places, hashes in results:
            hashed[split, number] = places, hashes
    train, rows = _joined(manifest, hashed, "train"), []
    for split in _held_out(manifest):
        held_out = _joined(manifest, hashed, split)
        matches = find_matches(train[1], held_out[1], distance)
        own, other = held_out[0][matches.held_out], train[0][matches.training]
        of_train = _titles(parts, "train", other)
        of_held_out = _titles(parts, split, own)
        pairs = zip(own.tolist(), other.tolist(), matches.distance.tolist(), strict=True)
        rows += [(*of_held_out[a], *of_train[b], bits) for a, b, bits in pairs]
    return rows


def _held_out(manifest: Manifest) -> list[str]:
    return [name for name in manifest.splits if name != "train"]


def held_out_images(manifest: Manifest) -> int:
    """Return the number of images that are held out, for evaluation or for tests."""
    return sum(manifest.splits[name].examples for name in _held_out(manifest))


def tell(folder: Path, manifest: Manifest, rows: Sequence[tuple[str, str, str, str, int]]) -> None:
    """Write near-duplicates.csv, even without any, and print how many there are."""
    write_table(folder / FILE, COLUMNS, rows, errors="surrogateescape")
    held_out = held_out_images(manifest)
    if not rows:
        print(f"near-duplicates: none of {plural(held_out, 'held-out image')}")
        return
    others = sum(row[1] != row[3] for row in rows)
    of_others = f", {others:,} of them under another class" if others else ""
    print(
        f"near-duplicates: {len(rows):,} of {plural(held_out, 'held-out image')}"
        f" ({len(rows) / held_out:.1%}) are nearly in the training split as well{of_others}, so"
        f" metrics are too good; {folder / FILE} lists them"
    )


def _hash(part: _Part, advance: Advance) -> tuple[str, int, Array, Array]:
    """Return the split and the number of a shard, and the places and the hashes of its images."""
    found: list[tuple[int, int]] = []
    place = -1
    for place, record in enumerate(part.records()):
        value = _hash_of(part, record.encoded)
        if value is not None:
            found.append((place, value))
        if (place + 1) % _TOLD_EVERY == 0:
            advance(_TOLD_EVERY)
    advance((place + 1) % _TOLD_EVERY)
    places, values = zip(*found, strict=True) if found else ((), ())
    return part.split, part.number, np.array(places, np.int64), np.array(values, np.uint64)


def _hash_of(part: _Part, encoded: bytes) -> int | None:
    try:
        return perceptual_hash(as_used(encoded, part.levels) if part.treated else encoded)
    except RejectedError:
        return None


def _joined(
    manifest: Manifest, hashed: dict[tuple[str, int], tuple[Array, Array]], split: str
) -> tuple[Array, Array]:
    """Return the places in a split and the hashes of its images."""
    shards, before = manifest.splits[split].shards, 0
    places: list[Array] = []
    hashes: list[Array] = []
    for number, shard in enumerate(shards):
        own, values = hashed[split, number]
        places.append(own + before)
        hashes.append(values)
        before += shard.examples
    return np.concatenate(places), np.concatenate(hashes)


def _titles(parts: Sequence[_Part], split: str, places: Array) -> dict[int, tuple[str, str]]:
    """Return name and class of some records of a split, by place. Only shards with one of them are
    read.
    """
    wanted, begin, ordered = set(places.tolist()), 0, np.sort(places)
    found: dict[int, tuple[str, str]] = {}
    for part in (one for one in parts if one.split == split):
        end = begin + part.shard.examples
        if np.searchsorted(ordered, begin) < np.searchsorted(ordered, end):
            for place, record in enumerate(part.records(), begin):
                if place in wanted:
                    name = record.filename or f"{part.shard.file}, record {place - begin}"
                    found[place] = name, record.text or str(record.label)
        begin = end
    return found


def read_rows(folder: Path) -> list[dict[str, Any]] | None:
    """Return the lines of near-duplicates.csv; None if they were not looked for.

    Raises:
        OSError: The file cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return list(csv.DictReader(file))
