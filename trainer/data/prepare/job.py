"""Write a data set of shards from files, in parallel; it can be interrupted and continued.

    list the files and assign each its position     (on disk: millions of files need no memory)
    survey some: statistics, sizes of records
    write each shard, then its description in .parts; a restart skips finished shards
    combine the descriptions: manifest.json last, then delete .parts

The result depends only on the files and the options, so its bytes are the same whatever the number
of processes and however often it was interrupted.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

import PIL

from common.errors import ConfigError
from common.text import plural
from trainer.data.duplicates.check import check_prepared
from trainer.data.formats.tfrecord import FRAME, shard_name
from trainer.data.intake.groups import save_groups
from trainer.data.intake.levels import SEARCHED, Values, store_levels, stored_levels
from trainer.data.intake.names import write_table
from trainer.data.intake.rules import AS_BEFORE, make_intake, tell_intake, tell_narrow
from trainer.data.manifest import (
    INDEX_EVERY,
    SCHEMA,
    Manifest,
    Origin,
    Shard,
    SplitCounts,
    warn_of_empty_classes,
)
from trainer.data.pixels.treatment import Levels
from trainer.data.prepare.encode import Rules, make_rules
from trainer.data.prepare.input_files import Inputs
from trainer.data.prepare.listing import Listing, SplitSize
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.output import begin, check_folder, finished, interruptible, only_writer
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import REJECTED, Rejections
from trainer.data.prepare.shards import (
    LEAST_SHARDS,
    PARTS,
    FileRange,
    Preparation,
    WrittenShard,
    part_file,
    survey_files,
    survey_values,
    write_shard,
)
from trainer.data.prepare.statistics import IMAGES, Survey
from trainer.data.tables.leaks import shared_folders, shared_values
from trainer.errors import DataError

_FIELDS = 300
"""Approximate bytes of a record besides its image: the names and numbers of its Example."""
_LEVELS_TASK = 2000
"""Number of files per task that looks for images of more than 8 bits."""
_SURVEY_TASK = 32
"""Number of files per task of the survey."""
FEWEST_IMAGES = INDEX_EVERY
"""Fewest images of a shard that is smaller than its target size: those between two records at which
reading can begin."""


def prepare(
    inputs: Inputs,
    output: Path,
    options: WriteOptions,
    command: str,
    held_out: float = 0.0,
    work_through: WorkThrough = work_through,
) -> Manifest:
    """Write the data set, or the part of it that is missing.

    Args:
        inputs: Files to write.
        output: Folder to write, perhaps a mounted data store.
        options: How images become records.
        command: Command of the user, for the manifest.
        held_out: Fraction of each class to hold out, of files that are not split yet.
        work_through: Does the tasks that write shards; by default a pool of processes.

    Raises:
        ConfigError: An option is invalid.
        DataError: There is nothing to write, too many files are unusable, or the folder contains
            something else.
        UserError: The command was interrupted; says what is done and how to continue.
    """
    rules, intake = make_rules(options), make_intake(options, output, os.environ)
    if held_out + options.test >= 1:
        raise ConfigError(["--test: leaves nothing for training, together with --held-out"])
    check_folder(output)
    with (
        interruptible(lambda: _finished_shards(output)),
        only_writer(output),
        tempfile.TemporaryDirectory(prefix="prepare-") as scratch,
    ):
        listing = Listing(Path(scratch) / "listing.sqlite")
        inputs = intake.pages(inputs, options)
        group = intake.group(options) or inputs.group
        listing.fill(inputs, options.seed, held_out, intake.naming, group, options.test)
        if options.name_table:
            write_table(Path(options.name_table), listing.names())
        sizes = listing.split_sizes()
        usable = sum(size.files for size in sizes.values())
        rejections = Rejections(listing.rejected(), usable, options, command)
        _check_splits(inputs, sizes, rejections)
        for note in inputs.notes:
            print(intake.naming.note(note), flush=True)
        if group is None:
            _warn_of_leaks(listing, inputs)
        identity = hash_inputs(listing, inputs, options, rules, held_out)
        complete = finished(output, identity)
        if complete:
            _keep_columns(output, inputs, listing)
            shutil.rmtree(output / PARTS, ignore_errors=True)
            print(f"{output}: is already complete, version {complete.version}")
            return complete
        least = begin(output, identity)
        preparation = Preparation(
            listing.path,
            output,
            inputs.classes,
            inputs.synsets,
            rules,
            inputs.targets,
            intake.without_key(),
        )
        levels, depths = _levels(preparation, sizes, options, work_through)
        preparation = replace(preparation, intake=replace(preparation.intake, levels=levels))
        survey = _survey(preparation, sizes["train"].files, options.processes)
        shards = plan_shards(preparation, sizes, survey.growth, options.shard_mb, least)
        _write(output, shards, options.processes, rejections, work_through)
        rejections.save(output)
        save_groups(output, listing.group_numbers(left_out=rejections.has))
        origin = Origin(command, identity)
        manifest = _manifest(
            preparation, shards, survey, origin, rejections, depths, listing.groups
        )
        _keep_columns(output, inputs, listing)
        check_prepared(output, manifest, options, work_through)
        manifest.save(output)
        listing.close()
    shutil.rmtree(output / PARTS, ignore_errors=True)
    _tell(output, manifest, rejections, counted=inputs.targets is None)
    return manifest


def _keep_columns(output: Path, inputs: Inputs, listing: Listing) -> None:
    if inputs.kept:
        inputs.kept.write(output, listing.titles())


def _warn_of_leaks(listing: Listing, inputs: Inputs) -> None:
    """Warn of folders and values of columns that look like patients and are in both splits."""
    folders = ""
    if inputs.above is not None:
        folders = shared_folders(listing.placed(), inputs.above, divided=listing.divided)
    for warning in (folders, *shared_values(listing.placed(), inputs.columns)):
        if warning:
            print(f"warning: {warning}", file=sys.stderr, flush=True)


def _check_splits(inputs: Inputs, sizes: dict[str, SplitSize], rejections: Rejections) -> None:
    for split in ("train", "validation"):
        if split not in sizes:
            raise DataError.of(
                f"no files for the split {split!r}: found {_classes(len(inputs.classes))} and"
                f" {plural(rejections.total, 'file')}{rejections.example()}. Each split needs at"
                " least one image; to hold images out, a class needs at least two"
            )


def hash_inputs(
    listing: Listing, inputs: Inputs, options: WriteOptions, rules: Rules, held_out: float
) -> str:
    """Return a hash of everything that affects the shards, Pillow's version included. Options of
    the intake that change nothing are left out, as in earlier versions, which had none.
    """
    taken = [(name, getattr(options, name)) for name, value in AS_BEFORE.items()
             if getattr(options, name) != value]  # fmt: skip
    shaping = (SCHEMA, PIL.__version__, inputs.classes, inputs.synsets, rules, options.seed,
               options.shard_mb, held_out, listing.hash(), *taken)  # fmt: skip
    return hashlib.sha256(repr(shaping).encode(errors="surrogateescape")).hexdigest()[:32]


def _survey(preparation: Preparation, files: int, processes: int) -> Survey:
    end = min(files, IMAGES)
    tasks = [
        FileRange(preparation, "train", begin, min(begin + _SURVEY_TASK, end))
        for begin in range(0, end, _SURVEY_TASK)
    ]
    total = Survey()
    with work_through(survey_files, tasks, end, "surveying some images", processes) as parts:
        for part in parts:
            total.merge(part)
    if not total.pixels.count:
        name, reason = min(total.rejected)
        raise DataError.of(
            f"none of the first {end:,} files is a usable image; for example, {name} {reason}"
        )
    return total


def _levels(
    preparation: Preparation,
    sizes: Mapping[str, SplitSize],
    options: WriteOptions,
    work_through: WorkThrough,
) -> tuple[Levels | None, Mapping[int, int]]:
    """Return the levels of deep images, and how many images use how many bits, found in a pass over
    all files if that is asked for.
    """
    parts, choice = preparation.output / PARTS, options.levels
    if choice not in SEARCHED:
        return preparation.intake.levels, {}
    known = stored_levels(parts)
    if known:
        return known
    tasks = [
        FileRange(preparation, split, begin, min(begin + _LEVELS_TASK, size.files))
        for split, size in sizes.items()
        for begin in range(0, size.files, _LEVELS_TASK)
    ]
    total, images = Values(), sum(size.files for size in sizes.values())
    with work_through(
        survey_values, tasks, images, "looking for deep images", options.processes
    ) as results:
        for values in results:
            total.merge(values)
    levels = total.levels(choice)
    store_levels(parts, levels, total.depths)
    return levels, total.depths


def plan_shards(
    preparation: Preparation,
    sizes: dict[str, SplitSize],
    growth: float,
    shard_mb: int,
    least: int = LEAST_SHARDS,
) -> dict[str, FileRange]:
    """Return the shards of all splits by name; those of a split have equal numbers of files, to
    within one. See `shard_count`.
    """
    shards = {}
    for split, size in sorted(sizes.items()):
        count = shard_count(size, growth, shard_mb, least)
        bounds = [size.files * number // count for number in range(count + 1)]
        for number in range(count):
            name = shard_name(split, number, count)
            shards[name] = FileRange(preparation, split, bounds[number], bounds[number + 1], name)
    return shards


def shard_count(size: SplitSize, growth: float, shard_mb: int, least: int) -> int:
    """Return the number of shards of a split.

    These are as many as the target size asks for, or `least` if that is more, as far as each shard
    then has `FEWEST_IMAGES`. A data set of few shards is mixed less, because the order of an epoch
    permutes shards, and each of its shards is read, and copied into caches, for many ranks.

    Args:
        size: Number of files and bytes of the split.
        growth: Stored bytes per byte of a file.
        shard_mb: Target size of a shard, in MB.
        least: Wanted number of shards, however small.
    """
    expected = size.bytes * growth + size.files * (FRAME + _FIELDS)
    by_size = ceil(expected / (shard_mb * 1e6))
    by_count = min(least, size.files // FEWEST_IMAGES)
    return min(max(by_size, by_count, 1), size.files)


def _write(
    output: Path,
    shards: dict[str, FileRange],
    processes: int,
    rejections: Rejections,
    work_through: WorkThrough,
) -> None:
    """Write the shards that are not finished yet."""
    missing: list[FileRange] = []
    for name, files in shards.items():
        finished_shard = _load_finished(output, name)
        if finished_shard:
            rejections.add(finished_shard.rejected)
        else:
            missing.append(files)
    done = len(shards) - len(missing)
    if done:
        print(
            f"{output}: continuing, {done:,} of {plural(len(shards), 'shard')} finished", flush=True
        )
    rejections.check(output, finished=not missing)
    images = sum(files.end - files.begin for files in missing)
    with work_through(write_shard, missing, images, "writing", processes) as results:
        for written in results:
            rejections.add(written.rejected)
            rejections.check(output, finished=False)
    rejections.check(output, finished=True)


def _finished_shards(output: Path) -> str:
    return f"{sum(1 for _ in (output / PARTS).glob('*.json')):,} shards"


def _load_finished(output: Path, name: str) -> WrittenShard | None:
    """Return the description of a shard, or None if the shard is not complete."""
    try:
        written = WrittenShard.load(part_file(output, name))
        whole = (output / name).stat().st_size == written.shard.bytes
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return written if whole else None


def _manifest(
    preparation: Preparation,
    shards: dict[str, FileRange],
    survey: Survey,
    origin: Origin,
    rejections: Rejections,
    depths: Mapping[int, int],
    groups: Mapping[str, int] | None,
) -> Manifest:
    """Combine the descriptions of all shards into the manifest."""
    output, classes = preparation.output, preparation.classes
    described: dict[str, list[Shard]] = {}
    counts: dict[str, SplitCounts] = {}
    treatment: Counter[str] = Counter()
    found: Counter[str] = Counter()
    narrow, such_as = 0, ""
    for name, files in shards.items():
        written = WrittenShard.load(part_file(output, name))
        described.setdefault(files.split, []).append(written.shard)
        counts.setdefault(files.split, SplitCounts.empty(len(classes))).merge(written.counts)
        treatment.update(written.treatment)
        found.update(written.found)
        narrow += len(written.narrow)
        such_as = min((such_as, *written.narrow), key=lambda title: (not title, title))
    if rejections.count:
        treatment["rejected"] = rejections.count
    for split, split_counts in counts.items():
        if not sum(split_counts.class_counts):
            raise DataError.of(
                f"{split}: has no usable image; see {output / REJECTED} for the reasons"
            )
    tell_narrow(narrow, such_as, preparation.intake.levels, depths)
    return Manifest(
        classes=classes,
        normalization=survey.pixels.normalization(),
        splits={name: counts[name].split(tuple(parts)) for name, parts in described.items()},
        origin=replace(
            origin,
            treatment=dict(sorted(treatment.items())),
            intake=preparation.intake.record(found, narrow, preparation.rules, groups),
        ),
    )


def _tell(output: Path, manifest: Manifest, rejections: Rejections, *, counted: bool) -> None:
    """Print a summary of the data set."""
    for name, split in manifest.splits.items():
        count = len(split.shards)
        print(
            f"{name}: {plural(split.examples, 'image')} in {plural(count, 'shard')} of"
            f" {split.bytes / count / 1e6:,.1f} MB"
        )
    # Labels that follow from other files need not name all classes.
    if counted:
        warn_of_empty_classes(manifest)
    print(_listed({k: n for k, n in manifest.origin.treatment.items() if k != "rejected"}))
    rejections.tell(output)
    tell_intake(manifest.origin.intake)
    print(f"{output}: {_classes(len(manifest.classes))}, version {manifest.version}")


def _classes(number: int) -> str:
    return plural(number, "class", "classes")


def _listed(counts: dict[str, int]) -> str:
    ordered: Sequence[tuple[str, int]] = sorted(counts.items(), key=lambda item: -item[1])
    return "; ".join(f"{number:,} {what}" for what, number in ordered)
