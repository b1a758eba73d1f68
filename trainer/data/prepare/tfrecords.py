"""`python -m trainer prepare tfrecords`: a manifest for shards that another tool wrote.

find the shards  ->  scan each, in parallel  ->  determine the labels  ->  statistics
                 ->  write manifest.json beside them; the shards are not changed
"""

import os
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path

import xxhash

from common.errors import ConfigError
from common.text import plural
from trainer.data.encoded_image import (
    DECODE_ERRORS,
    BrokenImageError,
    encoding_of,
    mode_fault,
    open_image,
    record_fault,
)
from trainer.data.example import BrokenRecordError, Record, from_example
from trainer.data.manifest import (
    FILE_NAME,
    INDEX_EVERY,
    Manifest,
    Normalization,
    Origin,
    Shard,
    SplitCounts,
    read_manifest,
)
from trainer.data.prepare.pool import Advance, work_through
from trainer.data.prepare.statistics import IMAGES, PixelSums
from trainer.data.tfrecord import FRAME, read_frames, read_shard
from trainer.errors import DataError
from trainer.options import PrepareTfrecordsOptions

_SPLITS = {"train": "train", "validation": "validation", "val": "validation"}
_NAME = re.compile(rf"({'|'.join(_SPLITS)})[-_.].+")
_SERIES = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")
_NO_SHARD = {".csv", ".idx", ".index", ".json", ".md5", ".partial", ".sha256", ".txt"}
"""Extensions of files that other tools put beside their shards."""
_GZIP = b"\x1f\x8b"

UNKNOWN, DAMAGED, UNFAITHFUL, MISDESCRIBED = range(4)
"""Kinds of faults: images that the reader cannot decode, that seem damaged, that it does not decode
faithfully, and that their records describe wrongly."""

_MAX_CLASSES = 100_000
"""Range of labels from which they are considered invalid; the largest ImageNet has 21,841."""


@dataclass(frozen=True)
class ForeignShard:
    """A shard to scan."""

    split: str
    path: Path


@dataclass
class ImageFaults:
    """Records with a fault of the same kind."""

    count: int
    first: str
    """The first of these records, with its fault."""


@dataclass
class ScannedShard:
    """Result of scanning a shard."""

    split: str
    shard: Shard
    counts: SplitCounts
    """Counts of encodings and sizes; classes are not known yet, so all images are in one class."""
    labels: Counter[int] = field(default_factory=Counter)
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Name and synset of each label in the records; empty where the records have none."""
    faults: dict[int, ImageFaults] = field(default_factory=dict)
    """Faults by kind: `UNKNOWN` and the others."""


def prepare_tfrecords(options: PrepareTfrecordsOptions, line: str) -> Manifest:
    """Describe the shards in a folder by a manifest beside them.

    Args:
        options: Options of the command.
        line: Command line, for the manifest.

    Raises:
        ConfigError: No folder is given.
        DataError: Shards are missing, damaged or cannot be trained on, labels are ambiguous, or the
            folder has a manifest of other shards.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder of the shards"])
    folder = Path(options.input)
    paths = find_shards(folder)
    existing = read_manifest(folder) if (folder / FILE_NAME).exists() else None
    if not existing and not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: is not writable, but the manifest must be written there")
    shards = [ForeignShard(split, path) for split in paths for path in paths[split]]
    images = _estimate([shard.path for shard in shards])
    with work_through(scan, shards, images, "reading", options.processes) as results:
        by_file = {scanned.shard.file: scanned for scanned in results}
    scanned = [by_file[shard.path.name] for shard in shards]
    manifest = _describe(folder, scanned, options.first_label, line)
    if existing and existing.version != manifest.version:
        raise DataError(
            f"{folder / FILE_NAME}: describes shards other than those in the folder; remove it and"
            " run the command again"
        )
    if existing:
        print(f"{folder}: already has a manifest, version {existing.version}")
        return existing
    manifest.save(folder)
    train, validation = (manifest.splits[name].examples for name in ("train", "validation"))
    print(
        f"{folder}: {plural(train, 'training image')}, {plural(validation, 'held-out image')},"
        f" {plural(len(manifest.classes), 'class', 'classes')}, version {manifest.version}"
    )
    return manifest


def _estimate(paths: Sequence[Path]) -> int:
    """Estimate the number of images in some shards from the size of the first ones."""
    try:
        sizes = [len(frame.data) + FRAME for frame in islice(read_frames(paths[0]), INDEX_EVERY)]
    except BrokenRecordError:
        return 0
    return sum(path.stat().st_size for path in paths) * len(sizes) // max(sum(sizes), 1)


def _describe(
    folder: Path, scanned: Sequence[ScannedShard], first_label: str, line: str
) -> Manifest:
    _check_images(folder, merge_faults(scanned))
    splits: dict[str, list[ScannedShard]] = {"train": [], "validation": []}
    names: dict[int, tuple[str, str]] = {}
    for part in scanned:
        splits[part.split].append(part)
        for label, name in part.names.items():
            note_name(names, label, name, part.shard.file)
    labels = {
        split: sum((part.labels for part in parts), Counter[int]())
        for split, parts in splits.items()
    }
    for split, label_counts in labels.items():
        if not label_counts:
            raise DataError(f"{folder}: the {split} shards have no records")
    first = _first_label(folder, labels, first_label)
    known = range(first, max(max(label_counts) for label_counts in labels.values()) + 1)
    normalization = _normalization(folder, [part.shard for part in splits["train"]])
    described = {}
    for split, parts in splits.items():
        counts = SplitCounts.empty(1)
        for part in parts:
            counts.merge(part.counts)
        counts.class_counts = [labels[split][label] for label in known]
        described[split] = counts.split(tuple(part.shard for part in parts))
    images = sum(label_counts.total() for label_counts in labels.values())
    origin = Origin(line, treatment={"left as they are": images})
    return Manifest(_class_names(names, known), normalization, described, origin, first)


def _check_images(folder: Path, faults: Mapping[int, ImageFaults]) -> None:
    unknown = faults.get(UNKNOWN)
    if unknown:
        raise DataError(
            f"{folder}: {_times(unknown)} neither JPEG nor PNG ({unknown.first}); only these are"
            " decoded: prepare the data from files of images, which converts others"
        )
    for kind, what, advice in (
        (DAMAGED, "damaged", "train with --data.on-corrupt skip, which leaves such images out"),
        (UNFAITHFUL, "not decoded faithfully", "prepare folder converts files of such images"),
        (MISDESCRIBED, "described wrongly", "the reader uses the images alone"),
    ):
        if kind in faults:
            print(
                f"warning: {_times(faults[kind])} {what} ({faults[kind].first}); {advice}",
                file=sys.stderr,
                flush=True,
            )


def _times(faults: ImageFaults) -> str:
    return f"{faults.count:,} image{' is' if faults.count == 1 else 's are'}"


def _first_label(folder: Path, labels: Mapping[str, Counter[int]], option: str) -> int:
    """Return the label of the first class."""
    smallest = min(min(counts) for counts in labels.values())
    largest = max(max(counts) for counts in labels.values())
    run = f"labels run from {smallest:,} to {largest:,}"
    choose = "set the label of the first class with --first-label 0 or --first-label 1"
    if smallest < 0 or largest - smallest >= _MAX_CLASSES:
        raise DataError(
            f"{folder}: {run}, which is not a valid numbering of classes; write the shards again"
        )
    if option != "auto":
        if smallest < int(option):
            raise DataError(f"{folder}: {run}, but --first-label is {option}")
        return int(option)
    train, validation = labels["train"], labels["validation"]
    if min(validation) < min(train) or max(validation) > max(train):
        raise DataError(
            f"{folder}: training labels run from {min(train):,} to {max(train):,}, held-out labels"
            f" from {min(validation):,} to {max(validation):,}; they may not mean the same classes."
            f" If they do, {choose}"
        )
    if smallest > 1:
        raise DataError(f"{folder}: {run}, so the label of the first class is ambiguous; {choose}")
    hint = " (if class 0 has no images, use --first-label 0)" if smallest else ""
    print(f"{run}; the first class is assumed to be {smallest}{hint}", flush=True)
    return smallest


def _class_names(names: Mapping[int, tuple[str, str]], labels: range) -> tuple[str, ...]:
    """Return a unique name for each label: its text, with a suffix in brackets if it is not unique.

    Without a text the name is the synset, and without a synset "class" and a number from 0.
    """
    known = [names.get(label, ("", "")) for label in labels]
    times = Counter(text or synset for text, synset in known)
    return tuple(
        (text or synset or f"class {number}")
        if times[text or synset] == 1 or not (text or synset)
        else f"{text or synset} ({synset if text and synset else label})"
        for number, (label, (text, synset)) in enumerate(zip(labels, known, strict=True))
    )


def _normalization(folder: Path, shards: Sequence[Shard]) -> Normalization:
    """Compute mean and standard deviation of images that are spread evenly over the shards."""
    ends = list(accumulate(shard.examples for shard in shards))
    count = min(IMAGES, ends[-1])
    sums, damaged = PixelSums(), 0
    for number in (ends[-1] * turn // count for turn in range(count)):
        shard = shards[bisect_right(ends, number)]
        record = number - (ends[bisect_right(ends, number)] - shard.examples)
        start, skipped = shard.index[record // INDEX_EVERY], record % INDEX_EVERY
        if ends[-1] >= IMAGES * INDEX_EVERY:
            # With this many images, those at which reading can start are as representative.
            skipped = 0
        serialized = next(islice(read_shard(folder / shard.file, start), skipped, None))
        try:
            sums.add(open_image(from_example(serialized).encoded))
        except DECODE_ERRORS:
            damaged += 1
    if damaged:
        print(f"warning: {damaged:,} of {count:,} images cannot be decoded", file=sys.stderr)
    if not sums.count:
        raise DataError(f"{folder}: none of {count:,} images can be decoded; write them again")
    return sums.normalization()


def find_shards(folder: Path) -> dict[str, list[Path]]:
    """Return the shards of each split, in their order.

    Raises:
        DataError: A split has no shards, lacks some, or has shards of several series.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    shards: dict[str, list[Path]] = {"train": [], "validation": []}
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file() and path.suffix not in _NO_SHARD:
            shards[_SPLITS[match[1]]].append(path)
    empty = [name for name, paths in shards.items() if not paths]
    if empty:
        names = {"train": "train-*", "validation": "validation-* or val-*"}
        raise DataError(
            f"{folder}: has no shards named {', nor '.join(names[name] for name in empty)};"
            " training images and held-out images must both be in this folder"
        )
    for name, paths in shards.items():
        _check_series(folder, name, [path.name for path in paths])
    return shards


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
            f"{folder}: the {split} shards are of several series: {shown}{others}; keep only one"
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
            f"{folder}: the following {split} shards are missing: {', '.join(missing[:10])}{more};"
            " copy them as well"
        )


def scan(task: ForeignShard, advance: Advance) -> ScannedShard:
    """Scan one shard, without holding it in memory.

    Raises:
        DataError: The shard is compressed, or a record is damaged.
    """
    path, index, digest = task.path, list[int](), xxhash.xxh3_128()
    with path.open("rb") as file:
        if file.read(len(_GZIP)) == _GZIP:
            raise DataError(
                f"{path}: is compressed with gzip, so it could only be read from its start;"
                " uncompress the shards with gunzip first"
            )
    scanned = ScannedShard(task.split, Shard(path.name, 0, 0, "", ()), SplitCounts.empty(1))
    records = 0
    try:
        for frame in read_frames(path, observe=digest.update):
            if records % INDEX_EVERY == 0:
                index.append(frame.offset)
            _add(from_example(frame.checked()), scanned, f"{path.name}, record {records}")
            records += 1
            advance(1)
    except BrokenRecordError as error:
        raise DataError(
            f"{path}, record {records}: {error}; copy or write the shard again"
        ) from error
    scanned.shard = Shard(path.name, records, path.stat().st_size, digest.hexdigest(), tuple(index))
    return scanned


def _add(record: Record, scanned: ScannedShard, where: str) -> None:
    scanned.labels[record.label] += 1
    note_name(scanned.names, record.label, (record.text, record.synset), where)
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
    scanned.counts.add(0, encoding, height, width)
    for kind, text in notes.items():
        if text:
            scanned.faults.setdefault(kind, ImageFaults(0, f"{where}: {text}")).count += 1


def note_name(
    names: dict[int, tuple[str, str]], label: int, name: tuple[str, str], where: str
) -> None:
    """Record the name and synset of a label.

    Raises:
        DataError: The label had another name before, so labels do not mean the same everywhere.
    """
    known = names.get(label, ("", ""))
    for before, now in zip(known, name, strict=True):
        if before and now and before != now:
            raise DataError(
                f"{where}: label {label} is {now!r} here and {before!r} in an earlier shard;"
                " labels must mean the same everywhere: write the shards again"
            )
    names[label] = (known[0] or name[0], known[1] or name[1])


def merge_faults(scanned: Iterable[ScannedShard]) -> dict[int, ImageFaults]:
    """Return the faults of several shards, by kind, in the order of shards."""
    merged: dict[int, ImageFaults] = {}
    for part in scanned:
        for kind, faults in part.faults.items():
            merged.setdefault(kind, ImageFaults(0, faults.first)).count += faults.count
    return merged
