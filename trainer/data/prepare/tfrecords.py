"""`python -m trainer prepare tfrecords`: a manifest for shards that another tool wrote.

find the shards  ->  look through each, in parallel  ->  what labels mean  ->  statistics
                 ->  manifest.json beside them; the shards stay as they are
"""

import os
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path

from common.errors import ConfigError
from trainer.data.examine import DAMAGED as DAMAGED_ERRORS
from trainer.data.examine import open_image
from trainer.data.manifest import (
    FILE_NAME,
    INDEX_EVERY,
    Manifest,
    Normalization,
    Origin,
    Shard,
    read_manifest,
)
from trainer.data.prepare.foreign import (
    DAMAGED,
    MISDESCRIBED,
    UNFAITHFUL,
    UNKNOWN,
    Noted,
    Scanned,
    Task,
    find_shards,
    merge_noted,
    note_name,
    scan,
)
from trainer.data.prepare.pool import work_through
from trainer.data.prepare.statistics import PixelSums
from trainer.data.prepare.survey import IMAGES
from trainer.data.split_counts import Tally
from trainer.data.tfrecord import FRAME, BrokenRecordError, from_example, read_frames, read_shard
from trainer.errors import DataError
from trainer.options import PrepareTfrecordsOptions

_MOST_CLASSES = 100_000
"""Classes beyond which a label is taken for a mistake; ImageNet's largest edition has 21,841."""


def prepare_tfrecords(options: PrepareTfrecordsOptions, line: str) -> Manifest:
    """Describe the shards in a folder by a manifest beside them.

    Args:
        options: what to describe.
        line: the command, for the manifest.

    Raises:
        ConfigError: no folder is named.
        DataError: shards that are missing, damaged or cannot be trained on, labels whose meaning is
            in doubt, or a manifest of other shards in the folder.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder of the shards"])
    folder = Path(options.input)
    paths = find_shards(folder)
    existing = read_manifest(folder) if (folder / FILE_NAME).exists() else None
    if not existing and not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: cannot be written to, but the manifest belongs there")
    tasks = [Task(split, path) for split, found in paths.items() for path in found]
    images = _estimate([task.path for task in tasks])
    by_file = {
        found.shard.file: found
        for found in work_through(scan, tasks, images, "reading", options.processes)
    }
    scanned = [by_file[task.path.name] for task in tasks]
    manifest = _describe(folder, scanned, options.first_label, line)
    if existing and existing.version != manifest.version:
        raise DataError(
            f"{folder / FILE_NAME}: describes other shards than are there; remove it to describe"
            " these"
        )
    if existing:
        print(f"{folder}: is described already, version {existing.version}")
        return existing
    manifest.save(folder)
    train, held_out = (manifest.splits[name].examples for name in ("train", "validation"))
    print(
        f"{folder}: {train:,} images to train on, {held_out:,} held out,"
        f" {len(manifest.classes):,} classes, version {manifest.version}"
    )
    return manifest


def _estimate(paths: Sequence[Path]) -> int:
    """Images in some shards, about: as if all were as large as the first ones."""
    try:
        sizes = [len(frame.data) + FRAME for frame in islice(read_frames(paths[0]), INDEX_EVERY)]
    except BrokenRecordError:
        return 0
    return sum(path.stat().st_size for path in paths) * len(sizes) // max(sum(sizes), 1)


def _describe(folder: Path, scanned: Sequence[Scanned], wanted: str, line: str) -> Manifest:
    _check_images(folder, merge_noted(scanned))
    splits: dict[str, list[Scanned]] = {"train": [], "validation": []}
    names: dict[int, tuple[str, str]] = {}
    for found in scanned:
        splits[found.split].append(found)
        for label, name in found.names.items():
            note_name(names, label, name, found.shard.file)
    labels = {
        split: sum((part.labels for part in parts), Counter[int]())
        for split, parts in splits.items()
    }
    for split, counts in labels.items():
        if not counts:
            raise DataError(f"{folder}: the {split} shards hold no record")
    first = _first_label(folder, labels, wanted)
    known = range(first, max(max(counts) for counts in labels.values()) + 1)
    normalization = _normalization(folder, [found.shard for found in splits["train"]])
    described = {}
    for split, parts in splits.items():
        tally = Tally.empty(1)
        for part in parts:
            tally.merge(part.tally)
        tally.class_counts = [labels[split][label] for label in known]
        described[split] = tally.split(tuple(part.shard for part in parts))
    images = sum(counts.total() for counts in labels.values())
    origin = Origin(line, treatment={"left as they are": images})
    return Manifest(_class_names(names, known), normalization, described, origin, first)


def _check_images(folder: Path, noted: Mapping[int, Noted]) -> None:
    unknown = noted.get(UNKNOWN)
    if unknown:
        raise DataError(
            f"{folder}: {_times(unknown)} neither JPEG nor PNG ({unknown.first}); only these are"
            " decoded: prepare the data from files of images, which converts others"
        )
    for kind, what, advice in (
        (DAMAGED, "damaged", "train with --data.on-corrupt skip, which leaves such images out"),
        (UNFAITHFUL, "read otherwise than meant", "files of images can be converted by prepare"),
        (MISDESCRIBED, "described wrongly", "the reader goes by the images alone"),
    ):
        if kind in noted:
            print(
                f"warning: {_times(noted[kind])} {what} ({noted[kind].first}); {advice}",
                file=sys.stderr,
                flush=True,
            )


def _times(noted: Noted) -> str:
    return f"{noted.count:,} image{' is' if noted.count == 1 else 's are'}"


def _first_label(folder: Path, labels: Mapping[str, Counter[int]], wanted: str) -> int:
    """What the records call the first class."""
    smallest = min(min(counts) for counts in labels.values())
    largest = max(max(counts) for counts in labels.values())
    run = f"labels run from {smallest:,} to {largest:,}"
    choose = "say with --first-label 0 or --first-label 1 what the first class is called"
    if smallest < 0 or largest - smallest >= _MOST_CLASSES:
        raise DataError(f"{folder}: {run}, which no classes are numbered by; write them anew")
    if wanted != "auto":
        if smallest < int(wanted):
            raise DataError(f"{folder}: {run}, but --first-label is {wanted}")
        return int(wanted)
    train, held_out = labels["train"], labels["validation"]
    if min(held_out) < min(train) or max(held_out) > max(train):
        raise DataError(
            f"{folder}: labels to train on run from {min(train):,} to {max(train):,}, those held"
            f" out from {min(held_out):,} to {max(held_out):,}: it is doubtful that they mean the"
            f" same classes. If they do, {choose}"
        )
    if smallest > 1:
        raise DataError(f"{folder}: {run}, so that the first class is in doubt; {choose}")
    hint = " (if class 0 has no images, give --first-label 0)" if smallest else ""
    print(f"{run}: taken to start at {smallest}{hint}", flush=True)
    return smallest


def _class_names(names: Mapping[int, tuple[str, str]], labels: range) -> tuple[str, ...]:
    """A name of its own for each label: its text, with more in brackets where others have it too.

    Without a text it is the synset, and without that "class" and a number from 0.
    """
    found = [names.get(label, ("", "")) for label in labels]
    times = Counter(text or synset for text, synset in found)
    return tuple(
        (text or synset or f"class {number}")
        if times[text or synset] == 1 or not (text or synset)
        else f"{text or synset} ({synset if text and synset else label})"
        for number, (label, (text, synset)) in enumerate(zip(labels, found, strict=True))
    )


def _normalization(folder: Path, shards: Sequence[Shard]) -> Normalization:
    """Mean and standard deviation of images that are spread evenly over the shards."""
    ends = list(accumulate(shard.examples for shard in shards))
    count = min(IMAGES, ends[-1])
    sums, damaged = PixelSums(), 0
    for number in (ends[-1] * turn // count for turn in range(count)):
        shard = shards[bisect_right(ends, number)]
        record = number - (ends[bisect_right(ends, number)] - shard.examples)
        start, skipped = shard.index[record // INDEX_EVERY], record % INDEX_EVERY
        if ends[-1] >= IMAGES * INDEX_EVERY:
            # Of many images those that reading can start at are as good.
            skipped = 0
        serialized = next(islice(read_shard(folder / shard.file, start), skipped, None))
        try:
            sums.add(open_image(from_example(serialized).encoded))
        except DAMAGED_ERRORS:
            damaged += 1
    if damaged:
        print(f"warning: {damaged:,} of {count:,} images cannot be decoded", file=sys.stderr)
    if not sums.count:
        raise DataError(f"{folder}: none of {count:,} images can be decoded; write them anew")
    return sums.normalization()
