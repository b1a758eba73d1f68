"""`ml-trainer verify DIR`: check every byte, record and count of a data set.

    shard by shard, in parallel:  bytes -> frames and checksums -> records -> images
    then, split by split:         the counts of all records

No shard is held in memory. Nothing here imports TensorFlow.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from common.errors import ConfigError
from common.program import load
from common.text import plural
from trainer.data.example import BrokenRecordError
from trainer.data.formats.record_format import RecordFormat, Stored, record_format
from trainer.data.manifest import (
    Manifest,
    Shard,
    Sides,
    Split,
    SplitCounts,
    read_manifest,
)
from trainer.data.pixels.encoded_image import check_decodes, open_stored, record_fault
from trainer.data.pixels.treatment import RejectedError, encoding_of, treatment_needed
from trainer.data.prepare.options import VerifyOptions
from trainer.data.prepare.pool import Advance, work_through
from trainer.data.prepare.splits import split_of
from trainer.errors import DataError
from trainer.leaves import TASKS

SHOWN = 20
"""Most faults to print per shard; all are counted."""

_SHARD = re.compile(r"\.tfrecord|-of-\d")
"""Part of the names of shards."""


@dataclass
class Faults:
    """Faults of one shard or split."""

    subject: str
    first: list[str] = field(default_factory=list)
    """Faults to print."""
    count: int = 0

    def add(self, text: str, where: str | None = None) -> None:
        """Add a fault, of a record or of the whole shard or split."""
        self.count += 1
        if len(self.first) < SHOWN:
            subject = f"{self.subject}, {where}" if where else self.subject
            self.first.append(f"{subject}: {text}")

    def show(self) -> None:
        """Print one line for each fault that is kept, and the number of the others."""
        for line in self.first:
            print(line, flush=True)
        if self.count > len(self.first):
            print(f"{self.subject}: {self.count - len(self.first):,} more faults", flush=True)


@dataclass(frozen=True)
class _ShardTask:
    path: Path
    format: RecordFormat
    shard: Shard
    split: str
    encodings: tuple[str, ...]
    treated: bool
    """Whether images are treated whenever they are read."""
    classes: tuple[str, ...]
    first_label: int
    deep: bool


@dataclass
class _CheckedShard:
    """Result of checking a shard."""

    split: str
    shard: Shard
    faults: Faults
    counts: SplitCounts
    records: int = 0
    uncounted: bool = False
    """Whether some of its records are missing from the counts."""
    xxh128: str = ""
    """XXH3-128 of the file; empty if it was not read completely, or if a fault explains a
    difference."""


def run(options: VerifyOptions) -> None:
    """`ml-trainer verify`; see `verify`."""
    if not options.folder:
        raise ConfigError(["verify: DIR is missing; name the folder of the data set"])
    verify(Path(options.folder), options)


def verify(folder: Path, options: VerifyOptions) -> None:
    """Check a data set and print every fault with its shard and record.

    Raises:
        DataError: There is no data set, or it has faults.
    """
    manifest = read_manifest(folder)
    files = record_format(manifest)
    tasks = [
        _ShardTask(
            manifest.folder(folder) / shard.file,
            files,
            shard,
            name,
            split.encodings,
            split.treated > 0,
            manifest.classes,
            manifest.first_label,
            options.deep,
        )
        for name, split in manifest.splits.items()
        for shard in split.shards
    ]
    owners = {task.shard.xxh128: task.shard.file for task in tasks}
    images = sum(split.examples for split in manifest.splits.values())
    counts = {name: SplitCounts.empty(len(manifest.classes)) for name in manifest.splits}
    uncounted, records, faults = set(), 0, list[Faults]()
    with work_through(_check_shard, tasks, images, "verifying", options.processes) as results:
        for checked in results:
            _check_hash(checked, owners)
            checked.faults.show()
            faults.append(checked.faults)
            records += checked.records
            counts[checked.split].merge(checked.counts)
            if checked.uncounted:
                uncounted.add(checked.split)
    for name, split in manifest.splits.items():
        if name not in uncounted:
            mismatches = _check_counts(name, split, counts[name], manifest.classes)
            mismatches.show()
            faults.append(mismatches)
    _mention_others(folder, manifest)
    total = sum(subject.count for subject in faults)
    counted = f"{plural(len(tasks), 'shard')}, {plural(records, 'record')}"
    summary = f"{folder}: {counted}, {plural(total, 'fault')}"
    if total:
        raise DataError(f"{summary}; copy these shards again, or prepare the data set again")
    print(summary)


def _check_shard(task: _ShardTask, advance: Advance) -> _CheckedShard:
    shard = task.shard
    faults = Faults(shard.file)
    checked = _CheckedShard(task.split, shard, faults, SplitCounts.empty(len(task.classes)))
    if not task.path.is_file():
        faults.add("is missing")
        checked.uncounted = True
        return checked
    size = task.path.stat().st_size
    if size != shard.bytes:
        faults.add(f"has {size:,} bytes, not {shard.bytes:,}")
    scan, intact = task.format.scan(str(task.path), shard.file, shard), True
    try:
        for stored in scan:
            if stored.fault is None:
                _check_record(stored, task, checked)
            else:
                faults.add(stored.fault, stored.where)
                checked.uncounted, intact = True, False
            checked.records += stored.count
            advance(stored.count)
    except (BrokenRecordError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        faults.add(f"{reason}; the rest of the shard cannot be read", scan.where)
        checked.uncounted = True
        return checked
    actual = scan.shard()
    checked.xxh128 = actual.xxh128 if intact else ""
    same = (actual.offsets, actual.blocks) == (shard.offsets, shard.blocks)
    if checked.records != shard.examples:
        faults.add(f"has {checked.records:,} records, not {shard.examples:,}")
    elif size == shard.bytes and not same:
        faults.add("its index in the manifest is not that of its records")
    return checked


def _check_record(stored: Stored, task: _ShardTask, checked: _CheckedShard) -> None:
    try:
        record = task.format.record(stored.values)
        image = open_stored(record.encoded)
    except (BrokenRecordError, RejectedError) as error:
        checked.faults.add(str(error), stored.where)
        checked.uncounted = True
        return
    faults, label = [record_fault(record, image)], record.label - task.first_label
    encoding, (width, height) = encoding_of(record.encoded), image.size
    if encoding not in task.encodings:
        faults.append(f"is a {encoding}, but the manifest names only {', '.join(task.encodings)}")
    if not 0 <= label < len(task.classes):
        last = task.first_label + len(task.classes) - 1
        faults.append(f"label {record.label} is not a class, {task.first_label} to {last}")
        checked.uncounted = True
    else:
        checked.counts.add(label, encoding, height, width)
        if record.text and not _is_named(task.classes[label], record.text):
            faults.append(
                f"its class is called {record.text!r}, but label {record.label} is"
                f" {task.classes[label]!r}"
            )
    if task.deep:
        faults.append(_decoding_fault(record.encoded))
        needed = None if task.treated else treatment_needed(record.encoded, image)
        if needed:
            faults.append(f"is used as it is stored, although it should be treated: {needed}")
        faults += [
            load(fault)(record.more[key], width, height, len(task.classes))
            for known in TASKS.values()
            for key, fault in known.features.items()
            if key in record.more
        ]
    for fault in filter(None, faults):
        checked.faults.add(fault, stored.where)


def _is_named(name: str, text: str) -> bool:
    """Return whether a record's text is the name of a class, which may add a suffix in brackets."""
    return name == text or name.startswith(f"{text} (")


def _decoding_fault(encoded: bytes) -> str | None:
    try:
        check_decodes(encoded)
    except RejectedError as error:
        return str(error)
    return None


def _check_hash(checked: _CheckedShard, owners: dict[str, str]) -> None:
    if checked.xxh128 in ("", checked.shard.xxh128):
        return
    owner = owners.get(checked.xxh128)
    if owner:
        checked.faults.add(f"has the content of {owner}")
    else:
        checked.faults.add(
            f"is not the file in the manifest (XXH128 {checked.xxh128}, not {checked.shard.xxh128})"
        )


def _check_counts(name: str, split: Split, counts: SplitCounts, classes: tuple[str, ...]) -> Faults:
    """Compare the counts over all records of a split with those in the manifest."""
    faults = Faults(name)
    if len(split.class_counts) != len(classes):
        of_classes = plural(len(split.class_counts), "class", "classes")
        faults.add(f"the manifest counts images of {of_classes}, not {len(classes)}")
        return faults
    for label, (expected, counted) in enumerate(
        zip(split.class_counts, counts.class_counts, strict=True)
    ):
        if expected != counted:
            faults.add(f"{plural(counted, 'image')} of {classes[label]!r}, not {expected:,}")
    if split.sides not in (Sides(), Sides(tuple(counts.short), tuple(counts.long))):
        faults.add("the image sizes counted in the manifest differ from those of the images")
    return faults


def _mention_others(folder: Path, manifest: Manifest) -> None:
    """Print the shards in the folder that the manifest does not list; they are never read."""
    named = {shard.file for split in manifest.splits.values() for shard in split.shards}
    names = sorted({path.name for path in folder.iterdir()} - named)
    others = [name for name in names if split_of(name) and _SHARD.search(name)]
    if others:
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        print(f"not in the manifest, so never read: {', '.join(others[:5])}{more}")
