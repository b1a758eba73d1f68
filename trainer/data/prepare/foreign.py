"""The shards that another tool wrote: which files they are, and what one of them holds."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from trainer.data.encoded_image import (
    BrokenImageError,
    encoding_of,
    mode_fault,
    open_image,
    record_fault,
)
from trainer.data.example import BrokenRecordError, Record, from_example
from trainer.data.manifest import INDEX_EVERY, Shard, Tally
from trainer.data.prepare.pool import Advance
from trainer.data.tfrecord import read_frames
from trainer.errors import DataError

_SPLITS = {"train": "train", "validation": "validation", "val": "validation"}
_NAME = re.compile(rf"({'|'.join(_SPLITS)})[-_.].+")
_SERIES = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")
_NO_SHARD = {".csv", ".idx", ".index", ".json", ".md5", ".partial", ".sha256", ".txt"}
"""Extensions of files that other tools put beside their shards."""
_GZIP = b"\x1f\x8b"

UNKNOWN, DAMAGED, UNFAITHFUL, MISDESCRIBED = range(4)
"""Images that the reader cannot decode, that seem damaged, that it does not take as they are meant,
and that their records describe wrongly."""


@dataclass(frozen=True)
class Task:
    """A shard to look through."""

    split: str
    path: Path


@dataclass
class Noted:
    """Records that have something in common."""

    count: int
    first: str
    """The first of them, with what there is to say of it."""


@dataclass
class Scanned:
    """What a shard holds."""

    split: str
    shard: Shard
    tally: Tally
    """Encodings and sizes; classes are not known yet, so all images are in one."""
    labels: Counter[int] = field(default_factory=Counter)
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    """What the records call the class of a label, and its synset; empty where they do not say."""
    noted: dict[int, Noted] = field(default_factory=dict)
    """By kind, of `UNKNOWN` and the others."""


def find_shards(folder: Path) -> dict[str, list[Path]]:
    """The shards of each split, in their order.

    Raises:
        DataError: a split without shards, with some missing, or with those of several series.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    found: dict[str, list[Path]] = {"train": [], "validation": []}
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file() and path.suffix not in _NO_SHARD:
            found[_SPLITS[match[1]]].append(path)
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        names = {"train": "train-*", "validation": "validation-* or val-*"}
        raise DataError(
            f"{folder}: holds no shards named {', nor '.join(names[name] for name in empty)};"
            " training needs images to train on and others to evaluate on, both in this folder"
        )
    for name, paths in found.items():
        _check_series(folder, name, [path.name for path in paths])
    return found


def _check_series(folder: Path, split: str, names: list[str]) -> None:
    """Refuse a series of shards with a gap, and several series that would be mixed."""
    matches = [_SERIES.fullmatch(name) for name in names]
    series = {(match[1], match[3], match[4]) if match else None for match in matches}
    if series == {None}:
        return
    if len(series) > 1:
        shown = ", ".join(
            f"{begin}*-of-{total}{end}" for begin, total, end in sorted(filter(None, series))
        )
        others = " and others" if None in series else ""
        raise DataError(
            f"{folder}: the {split} shards are of several series: {shown}{others}; leave only one"
            " in the folder"
        )
    ((begin, total, end),) = filter(None, series)
    numbers = {int(match[2]) for match in matches if match}
    width = len(next(match[2] for match in matches if match))
    # Some tools count from 1.
    first = 1 if 0 not in numbers and int(total) in numbers else 0
    missing = [
        f"{begin}{number:0{width}d}-of-{total}{end}"
        for number in range(first, first + int(total))
        if number not in numbers
    ]
    if missing:
        more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
        raise DataError(
            f"{folder}: of the {split} shards there are missing {', '.join(missing[:10])}{more};"
            " copy them as well"
        )


def scan(task: Task, advance: Advance) -> Scanned:
    """Look through one shard, without holding it in memory.

    Raises:
        DataError: it is compressed, or a record is damaged.
    """
    path, index, digest = task.path, list[int](), xxhash.xxh3_128()
    with path.open("rb") as file:
        if file.read(len(_GZIP)) == _GZIP:
            raise DataError(
                f"{path}: is compressed with gzip, so that reading could only begin at its start;"
                " unpack the shards (gunzip) and describe those"
            )
    found = Scanned(task.split, Shard(path.name, 0, 0, "", ()), Tally.empty(1))
    records = 0
    try:
        for frame in read_frames(path, observe=digest.update):
            if records % INDEX_EVERY == 0:
                index.append(frame.offset)
            _add(from_example(frame.checked()), found, f"{path.name}, record {records}")
            records += 1
            advance(1)
    except BrokenRecordError as error:
        raise DataError(
            f"{path}, record {records}: {error}; copy the shard again, or write it anew"
        ) from error
    found.shard = Shard(path.name, records, path.stat().st_size, digest.hexdigest(), tuple(index))
    return found


def _add(record: Record, found: Scanned, place: str) -> None:
    found.labels[record.label] += 1
    note_name(found.names, record.label, (record.text, record.synset), place)
    encoding, notes = encoding_of(record.encoded), dict[int, str | None]()
    height, width = record.height, record.width
    if not encoding:
        notes[UNKNOWN] = f"begins with {record.encoded[:4]!r}"
    else:
        try:
            image = open_image(record.encoded)
            width, height = image.size
            notes[UNFAITHFUL] = mode_fault(image)
            notes[MISDESCRIBED] = record_fault(record, image)
        except BrokenImageError as error:
            notes[DAMAGED] = str(error)
    found.tally.add(0, encoding, height, width)
    for kind, text in notes.items():
        if text:
            found.noted.setdefault(kind, Noted(0, f"{place}: {text}")).count += 1


def note_name(
    names: dict[int, tuple[str, str]], label: int, name: tuple[str, str], place: str
) -> None:
    """Add what a label's class is called, and its synset, to what is known of it.

    Raises:
        DataError: it was called something else, so that labels do not mean the same everywhere.
    """
    known = names.get(label, ("", ""))
    for before, now in zip(known, name, strict=True):
        if before and now and before != now:
            raise DataError(
                f"{place}: label {label} is {now!r} here and {before!r} in a shard before; the"
                " labels do not mean the same everywhere: write the shards anew"
            )
    names[label] = (known[0] or name[0], known[1] or name[1])


def merge_noted(scanned: Iterable[Scanned]) -> dict[int, Noted]:
    """What is noted of several shards, by kind, in their order."""
    merged: dict[int, Noted] = {}
    for found in scanned:
        for kind, noted in found.noted.items():
            merged.setdefault(kind, Noted(0, noted.first)).count += noted.count
    return merged
