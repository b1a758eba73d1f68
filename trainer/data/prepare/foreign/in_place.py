"""Data sets described where they are: files are scanned, and only manifest.json is written."""

import os
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Protocol, TypeAlias

from common.errors import ConfigError
from common.text import plural
from trainer.data.example import BrokenRecordError, Record
from trainer.data.formats.record_format import RecordFormat
from trainer.data.intake.levels import SEARCHED, Values, given_levels
from trainer.data.intake.metadata import BrokenSegmentsError, kinds
from trainer.data.intake.record import IN_PLACE, Intake
from trainer.data.intake.rules import DARK_BITS, counted, tell_narrow
from trainer.data.intake.segments import FILE_NAME_KIND
from trainer.data.manifest import (
    FILE_NAME,
    INDEX_EVERY,
    Manifest,
    Normalization,
    Origin,
    Shard,
    SplitCounts,
    read_manifest,
    warn_of_empty_classes,
)
from trainer.data.pixels.encoded_image import as_used, open_stored, record_fault
from trainer.data.pixels.treatment import (
    BIT_DEPTH,
    FULL_LEVELS,
    MAX_PIXELS,
    Levels,
    RejectedError,
    encoding_of,
    treatment_needed,
)
from trainer.data.prepare.pool import Advance, WorkThrough
from trainer.data.prepare.statistics import IMAGES, PixelSums
from trainer.errors import DataError

UNKNOWN, DAMAGED, LARGE, TREATED, MISDESCRIBED, UNREAD = range(6)
"""Kinds of notes: images that the reader cannot decode, that seem damaged, that are larger than an
exported model accepts, that are treated while they are read, that their records describe wrongly,
and whose records have what belongs to another task."""

MAX_CLASSES = 100_000
"""Range of labels from which they are considered invalid; the largest ImageNet has 21,841."""


class InPlace(Protocol):
    """Options of a command that describes files where they are."""

    @property
    def levels(self) -> str:
        """Values that become 0 and 255 in images of more than 8 bits."""

    @property
    def processes(self) -> int:
        """Number of processes; 0 is one per core."""


@dataclass(frozen=True)
class ForeignShard:
    """A shard to scan."""

    split: str
    path: Path
    file: str
    """Name relative to the manifest."""
    format: RecordFormat
    classes: int | None = None
    """Number of classes, whose labels begin at 0; None if any label will do for now."""


@dataclass
class Noted:
    """Records with a note of the same kind."""

    count: int
    first: str
    """The first of these records, with its note."""


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
    notes: dict[int, Noted] = field(default_factory=dict)
    """Notes by kind: `UNKNOWN` and the others."""
    metadata: Counter[str] = field(default_factory=Counter)
    """Images by the contents of their records besides pixels."""
    values: Values | None = None
    """Values of the deep images; None if there are none."""


Scanned: TypeAlias = Sequence[ScannedShard]
Labels: TypeAlias = dict[str, Counter[int]]
"""Number of images of each label in each split."""


def describe(
    folder: Path,
    by_split: Mapping[str, Mapping[str, Path]],
    files: RecordFormat,
    images: int,
    options: InPlace,
    command: str,
    classes_of: Callable[[Scanned, Labels], tuple[tuple[str, ...], int]],
    work_through: WorkThrough,
    classes: int | None = None,
) -> Manifest:
    """Scan files in parallel, and return their manifest.

    Args:
        folder: Folder of the files.
        by_split: Files of each split, see `files_by_split`.
        files: Their format.
        images: Number of images in all of them, or an estimate of it.
        options: How they are read.
        command: Command of the user, for the manifest.
        classes_of: Returns the names of the classes and the label of the first one.
        work_through: Does the scans; see `trainer.data.prepare.pool`.
        classes: See `ForeignShard.classes`.

    Raises:
        ConfigError: `--levels` is invalid.
        DataError: A record is damaged, or has a label that is not a class; a split has no images,
            or has images that are neither JPEG nor PNG; or none can be decoded.
    """
    shards = [
        ForeignShard(split, path, name, files, classes)
        for split, paths in by_split.items()
        for name, path in paths.items()
    ]
    with work_through(scan, shards, images, "reading", options.processes) as results:
        by_file = {scanned.shard.file: scanned for scanned in results}
    scanned = [by_file[shard.file] for shard in shards]
    _check_images(folder, scanned)
    labels: Labels = {"train": Counter(), "validation": Counter()}
    for part in scanned:
        labels[part.split] += part.labels
    for split, of_split in labels.items():
        if not of_split:
            raise DataError(f"{folder}: the {split} shards have no records")
    names, first = classes_of(scanned, labels)
    levels = _levels(folder, scanned, options.levels)
    splits = {}
    for split, of_split in labels.items():
        counts = SplitCounts.empty(1)
        parts = [part for part in scanned if part.split == split]
        for part in parts:
            counts.merge(part.counts)
        counts.class_counts = [of_split[first + number] for number in range(len(names))]
        treated = sum(part.notes[TREATED].count for part in parts if TREATED in part.notes)
        described = counts.split(tuple(part.shard for part in parts))
        splits[split] = replace(described, treated=treated)
    normalization = _normalization(folder, files, splits["train"].shards, levels)
    treatment = {"left as they are": sum(of_split.total() for of_split in labels.values())}
    origin = Origin(command, treatment=treatment, intake=_intake(scanned, levels))
    return Manifest(names, normalization, splits, origin, first, levels=levels)


def scan(task: ForeignShard, advance: Advance) -> ScannedShard:
    """Scan one shard, without holding it in memory.

    Raises:
        DataError: A record is damaged, or has a label that is not a class.
    """
    counts = SplitCounts.empty(1)
    scanned = ScannedShard(task.split, Shard(task.file, 0, 0, ""), counts)
    records = task.format.scan(str(task.path), task.file)
    where, fault = "", None
    try:
        for stored in records:
            where, fault = stored.where, stored.fault
            if fault:
                break
            record = task.format.record(stored.values)
            if task.classes is not None and not 0 <= record.label < task.classes:
                fault = f"label {record.label} is not a class, 0 to {task.classes - 1}"
                break
            _add(record, scanned, f"{Path(task.file).name}, {where}")
            if len(scanned.labels) > MAX_CLASSES:
                raise DataError(
                    f"{task.path}, {where}: has one of more than {MAX_CLASSES:,} labels, too many"
                    " to be classes; write the shards again with the numbers of classes as labels"
                )
            advance(1)
            where = ""
    except BrokenRecordError as error:
        fault = str(error)
    except OSError as error:
        raise DataError(
            f"{task.path}, {records.where}: cannot be read ({error.strerror}); run the same command"
            " again"
        ) from error
    if fault:
        raise DataError(
            f"{task.path}, {where or records.where}: {fault}; copy or write the shard again"
        )
    scanned.shard = records.shard()
    return scanned


def _add(record: Record, scanned: ScannedShard, where: str) -> None:
    scanned.labels[record.label] += 1
    scanned.metadata.update(_besides_pixels(record))
    note_name(scanned.names, record.label, (record.text, record.synset), where)
    encoding, notes = encoding_of(record.encoded), dict[int, str | None]()
    notes[UNREAD] = record.unread and f"has {record.unread}"
    height, width = record.height, record.width
    if not encoding:
        notes[UNKNOWN] = f"begins with {record.encoded[:4]!r}"
    else:
        try:
            image = open_stored(record.encoded)
            width, height = image.size
            if width * height > MAX_PIXELS:
                notes[LARGE] = f"has {width} x {height} pixels"
            notes[TREATED] = treatment_needed(record.encoded, image)
            notes[MISDESCRIBED] = record_fault(record, image)
            if encoding == "PNG" and record.encoded[BIT_DEPTH] > 8 and notes[TREATED]:
                scanned.values = scanned.values or Values()
                scanned.values.add_image(record.encoded, image)
        except RejectedError as error:
            notes[DAMAGED] = str(error)
    scanned.counts.add(0, encoding, height, width)
    if notes.get(TREATED):
        scanned.counts.encodings.add("JPEG")
    for kind, text in notes.items():
        if text:
            scanned.notes.setdefault(kind, Noted(0, f"{where}: {text}")).count += 1


def _besides_pixels(record: Record) -> tuple[str, ...]:
    """Return the kinds of metadata of a record's image, and whether the record has a name."""
    named = (FILE_NAME_KIND,) if record.filename else ()
    try:
        return (*kinds(record.encoded), *named)
    except BrokenSegmentsError:
        return named


def _intake(scanned: Scanned, levels: Levels | None) -> Intake:
    """Return what records hold besides pixels, after a warning if that is anything: the files are
    not changed, so all of it is wherever they are.
    """
    metadata = sum((part.metadata for part in scanned), Counter[str]())
    if metadata:
        print(
            f"warning: the records hold more than pixels: {counted(metadata)}; the files are not"
            " changed, so this goes wherever they go",
            file=sys.stderr,
            flush=True,
        )
    return Intake(IN_PLACE, dict(sorted(metadata.items())), levels=levels)


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


def existing_manifest(folder: Path) -> Manifest | None:
    """Return the manifest that a folder has.

    Raises:
        DataError: It has none, and none can be written.
    """
    existing = read_manifest(folder) if (folder / FILE_NAME).exists() else None
    if not existing and not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: is not writable, but the manifest must be written there")
    return existing


def save_described(folder: Path, manifest: Manifest, existing: Manifest | None) -> Manifest:
    """Write a manifest, unless the folder has the same one.

    Raises:
        DataError: The folder has another one.
    """
    if existing and existing.version != manifest.version:
        raise DataError(
            f"{folder / FILE_NAME}: describes shards other than those in the folder, or was written"
            " by a version that did not treat images, or knew no levels of deep ones; remove it and"
            " run the command again"
        )
    if existing:
        print(f"{folder}: already has a manifest, version {existing.version}")
        return existing
    manifest.save(folder)
    warn_of_empty_classes(manifest)
    train, validation = (manifest.splits[name].examples for name in ("train", "validation"))
    print(
        f"{folder}: {plural(train, 'training image')}, {plural(validation, 'held-out image')},"
        f" {plural(len(manifest.classes), 'class', 'classes')}, version {manifest.version}"
    )
    return manifest


def _check_images(folder: Path, scanned: Scanned) -> None:
    notes: dict[int, Noted] = {}
    for part in scanned:
        for kind, noted in part.notes.items():
            notes.setdefault(kind, Noted(0, noted.first)).count += noted.count
    unknown = notes.get(UNKNOWN)
    if unknown:
        raise DataError(
            f"{folder}: {_times(unknown)} neither JPEG nor PNG ({unknown.first}); only these are"
            " decoded: prepare the data from files of images, which converts others"
        )
    for kind, what, advice in (
        (DAMAGED, "damaged", "train with --data.on-corrupt skip, which leaves such images out"),
        (LARGE, f"of more than {MAX_PIXELS:,} pixels", "predict, score and serve refuse such"),
        (TREATED, "treated whenever read", "a copy, which is treated once, is read faster"),
        (MISDESCRIBED, "described wrongly", "the reader uses the images alone"),
        (UNREAD, "of another task as well", "only their classes are used"),
    ):
        if kind in notes:
            print(
                f"warning: {_times(notes[kind])} {what} ({notes[kind].first}); {advice}",
                file=sys.stderr,
                flush=True,
            )


def _times(noted: Noted) -> str:
    return f"{noted.count:,} image{' is' if noted.count == 1 else 's are'}"


def _levels(folder: Path, scanned: Scanned, choice: str) -> Levels | None:
    """Return the levels of deep images in files that are not changed, after a warning if they make
    some of them dark.

    Args:
        folder: Folder of the files.
        scanned: Their scans.
        choice: Value of `--levels`.

    Raises:
        ConfigError: The choice is invalid.
    """
    try:
        levels = given_levels(choice)
    except ValueError as error:
        raise ConfigError([f"--levels: {error}"]) from error
    total = Values()
    for part in scanned:
        if part.values:
            total.merge(part.values)
    if not total.images:
        return None
    if choice in SEARCHED:
        levels = total.levels(choice)
    top = int((levels or FULL_LEVELS)[1]).bit_length()
    dark = sum(images for bits, images in total.depths.items() if 0 < bits <= top - DARK_BITS)
    tell_narrow(dark, f"those of {folder}", levels, total.depths)
    return levels


def _normalization(
    folder: Path, files: RecordFormat, shards: Sequence[Shard], levels: Levels | None
) -> Normalization:
    """Compute mean and standard deviation of images that are spread evenly over the shards.

    Raises:
        DataError: None of the images can be decoded.
    """
    entries = [(shard, entry) for shard in shards for entry in files.entries(shard)]
    ends = list(accumulate(entry.count for _, entry in entries))
    count = min(IMAGES, ends[-1])
    sums, damaged, reader = PixelSums(), 0, files.reader(1)
    for number in (ends[-1] * turn // count for turn in range(count)):
        shard, entry = entries[bisect_right(ends, number)]
        skipped = number - (ends[bisect_right(ends, number)] - entry.count)
        if ends[-1] >= IMAGES * INDEX_EVERY:
            # With this many images, those at which reading can start are as representative.
            skipped = 0
        path, first = str(folder / shard.file), entry.first + skipped
        (values,) = reader.records(path, shard, entry.block, first, 1)
        try:
            sums.add(open_stored(as_used(files.record(values).encoded, levels)))
        except (RejectedError, OSError):
            damaged += 1
    if damaged:
        print(f"warning: {damaged:,} of {count:,} images cannot be decoded", file=sys.stderr)
    if not sums.count:
        raise DataError(f"{folder}: none of {count:,} images can be decoded; write them again")
    return sums.normalization()
