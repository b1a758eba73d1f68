"""Write a data set of shards from files, in parallel, to be interrupted and continued at will.

    list the files and give each its place          (a file on disk: millions need no memory)
    look at some: statistics, sizes of records
    write each shard, then its description in .parts; finished ones are skipped by a restart
    add up the descriptions: manifest.json last of all, then .parts goes

Everything follows from the files and the options, so the result has the same bytes whatever the
number of processes and however often it was interrupted.
"""

import hashlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

import PIL

from trainer.data.manifest import (
    SCHEMA,
    Manifest,
    Origin,
    empty_classes,
)
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.entries import Inputs
from trainer.data.prepare.listing import Listing, Part
from trainer.data.prepare.output import (
    begin,
    check_folder,
    finished,
    interruptible,
    only_writer,
)
from trainer.data.prepare.pool import work_through
from trainer.data.prepare.rejected import FILE_NAME as REJECTED
from trainer.data.prepare.rejected import Rejections
from trainer.data.prepare.rules import make_rules
from trainer.data.prepare.survey import IMAGES, Survey
from trainer.data.prepare.write import (
    PARTS,
    Common,
    Task,
    Written,
    part_file,
    survey,
    write_shard,
)
from trainer.data.split_counts import Tally
from trainer.data.tfrecord import FRAME, shard_name
from trainer.errors import DataError
from trainer.options import WriteOptions

_FIELDS = 300
"""Bytes of a record beside its image: the names and numbers of its Example, about."""
_SURVEY_TASK = 32
"""Files that one process looks at before it takes the next."""
_SHOWN = 5
"""Classes named in a warning."""


def prepare(
    inputs: Inputs, output: Path, options: WriteOptions, command: str, held_out: float = 0.0
) -> Manifest:
    """Write the data set, or what is missing of it.

    Args:
        inputs: the files.
        output: folder to write, perhaps a mounted data store.
        options: how images become records.
        command: what a person typed, for the manifest.
        held_out: part of each class to evaluate on, of files that are not divided yet.

    Raises:
        ConfigError: options that cannot be read.
        DataError: nothing to write, too many unusable files, or a folder that holds something else.
        UserError: interrupted, with what is done and how to continue.
    """
    rules = make_rules(options)
    check_folder(output)
    with (
        interruptible(output),
        only_writer(output),
        tempfile.TemporaryDirectory(prefix="prepare-") as scratch,
    ):
        listing = Listing(Path(scratch) / "listing.sqlite")
        listing.fill(inputs, options.seed, held_out)
        parts = listing.parts()
        rejections = Rejections(listing.refusals(), sum(p.files for p in parts.values()), options)
        _check_parts(inputs, parts, rejections)
        for note in inputs.notes:
            print(note, flush=True)
        identity = _identity(listing, inputs, options, rules, held_out)
        complete = finished(output, identity)
        if complete:
            shutil.rmtree(output / PARTS, ignore_errors=True)
            print(f"{output}: is complete already, version {complete.version}")
            return complete
        begin(output, identity)
        common = Common(listing.path, output, inputs.classes, inputs.synsets, rules)
        seen = _survey(common, parts["train"].files, options.processes)
        tasks = _shards(common, parts, seen.growth, options.shard_mb)
        _write(tasks, options.processes, rejections)
        rejections.save(output)
        manifest = _manifest(inputs, tasks, seen, Origin(command, identity), rejections)
        manifest.save(output)
        listing.close()
    shutil.rmtree(output / PARTS, ignore_errors=True)
    _tell(output, manifest, rejections)
    return manifest


def _check_parts(inputs: Inputs, parts: dict[str, Part], rejections: Rejections) -> None:
    for split in ("train", "validation"):
        if split not in parts:
            raise DataError(
                f"no files for the split {split!r}: {len(inputs.classes)} classes and"
                f" {rejections.total:,} files were found{rejections.example()}. Each split needs an"
                " image; of a class that is to be divided, two"
            )


def _identity(
    listing: Listing, inputs: Inputs, options: WriteOptions, rules: Rules, held_out: float
) -> str:
    """A hash of everything that shapes the shards; Pillow's version, as it encodes."""
    shaping = (SCHEMA, PIL.__version__, inputs.classes, inputs.synsets, rules, options.seed,
               options.shard_mb, held_out, listing.hash())  # fmt: skip
    return hashlib.sha256(repr(shaping).encode(errors="surrogateescape")).hexdigest()[:32]


def _survey(common: Common, files: int, processes: int) -> Survey:
    end = min(files, IMAGES)
    tasks = [
        Task(common, "train", begin, min(begin + _SURVEY_TASK, end))
        for begin in range(0, end, _SURVEY_TASK)
    ]
    total = Survey()
    for part in work_through(survey, tasks, end, "looking at some images", processes):
        total.merge(part)
    if not total.pixels.count:
        name, reason = min(total.rejected)
        raise DataError(
            f"none of the first {end:,} files is a usable image; {name}, for one, {reason}"
        )
    return total


def _shards(
    common: Common, parts: dict[str, Part], growth: float, shard_mb: int
) -> dict[str, Task]:
    """The shards of all splits by name; those of a split have the same number of files, to within
    one.
    """
    tasks = {}
    for split, part in sorted(parts.items()):
        expected = part.bytes * growth + part.files * (FRAME + _FIELDS)
        count = min(max(ceil(expected / (shard_mb * 1e6)), 1), part.files)
        bounds = [part.files * number // count for number in range(count + 1)]
        for number in range(count):
            name = shard_name(split, number, count)
            tasks[name] = Task(common, split, bounds[number], bounds[number + 1], name)
    return tasks


def _write(tasks: dict[str, Task], processes: int, rejections: Rejections) -> None:
    output = next(iter(tasks.values())).common.output
    missing: list[Task] = []
    for name, task in tasks.items():
        part = _found(output, name)
        if part:
            rejections.add(part.rejected)
        else:
            missing.append(task)
    done = len(tasks) - len(missing)
    if done:
        print(f"{output}: continues with {done:,} of {len(tasks):,} shards finished", flush=True)
    rejections.check(output)
    images = sum(task.end - task.begin for task in missing)
    for written in work_through(write_shard, missing, images, "writing", processes):
        rejections.add(written.rejected)
        rejections.check(output)


def _found(output: Path, name: str) -> Written | None:
    """The description of a shard that is complete."""
    try:
        part = Written.load(part_file(output, name))
        whole = (output / name).stat().st_size == part.shard.bytes
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return part if whole else None


def _manifest(
    inputs: Inputs, tasks: dict[str, Task], seen: Survey, origin: Origin, rejections: Rejections
) -> Manifest:
    output = next(iter(tasks.values())).common.output
    shards: dict[str, list[Written]] = {}
    tallies: dict[str, Tally] = {}
    treatment: Counter[str] = Counter()
    for name, task in tasks.items():
        part = Written.load(part_file(output, name))
        shards.setdefault(task.split, []).append(replace(part, rejected=()))
        tallies.setdefault(task.split, Tally.empty(len(inputs.classes))).merge(part.tally)
        treatment.update(part.treatment)
    if rejections.count:
        treatment["rejected"] = rejections.count
    for split, tally in tallies.items():
        if not sum(tally.class_counts):
            raise DataError(f"{split}: has no usable image; {output / REJECTED} says why")
    return Manifest(
        classes=inputs.classes,
        normalization=seen.pixels.normalization(),
        splits={
            split: tallies[split].split(tuple(part.shard for part in parts))
            for split, parts in shards.items()
        },
        origin=replace(origin, treatment=dict(sorted(treatment.items()))),
    )


def _tell(output: Path, manifest: Manifest, rejections: Rejections) -> None:
    """What a person wants to know at the end."""
    for name, split in manifest.splits.items():
        count = len(split.shards)
        print(
            f"{name}: {split.examples:,} images in {count:,} shard{'s' * (count > 1)} of"
            f" {split.bytes / count / 1e6:,.1f} MB"
        )
        empty = empty_classes(manifest, name)
        if empty:
            shown = ", ".join(empty[:_SHOWN]) + (", ..." if len(empty) > _SHOWN else "")
            print(
                f"warning: no images in {name} of {len(empty):,} classes: {shown}", file=sys.stderr
            )
    print(_listed({k: n for k, n in manifest.origin.treatment.items() if k != "rejected"}))
    rejections.tell(output)
    print(f"{output}: {len(manifest.classes):,} classes, version {manifest.version}")


def _listed(counts: dict[str, int]) -> str:
    ordered: Sequence[tuple[str, int]] = sorted(counts.items(), key=lambda item: -item[1])
    return "; ".join(f"{number:,} {what}" for what, number in ordered)
