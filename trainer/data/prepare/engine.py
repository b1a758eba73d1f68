"""Write a data set of shards from files, in parallel, to be interrupted and continued at will.

    list the files and give each its place          (a file on disk: millions need no memory)
    look at some: statistics, sizes of records
    write each shard, then its description in .parts; finished ones are skipped by a restart
    add up the descriptions: manifest.json last of all, then .parts goes

Everything follows from the files and the options, so the result has the same bytes whatever the
number of processes and however often it was interrupted.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import ceil
from pathlib import Path

import PIL

from trainer.data.manifest import FILE_NAME, SCHEMA, Manifest, Origin, load_manifest
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.entries import Inputs
from trainer.data.prepare.listing import Listing, Part
from trainer.data.prepare.pool import work_through
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
from trainer.data.records import FRAME, shard_name
from trainer.data.tally import Tally
from trainer.errors import DataError, TrainerError
from trainer.options import WriteOptions

_FIELDS = 300
"""Bytes of a record beside its image: the names and numbers of its Example, about."""
_SURVEY_TASK = 32
"""Files that one process looks at before it takes the next."""


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
        TrainerError: interrupted, with what is done and how to continue.
    """
    rules = make_rules(options)
    _check_folder(output)
    with _only_writer(output), tempfile.TemporaryDirectory(prefix="prepare-") as scratch:
        listing = Listing(Path(scratch) / "listing.sqlite")
        listing.fill(inputs, options.seed, held_out)
        parts = listing.parts()
        rejections = Rejections(listing.refusals(), sum(p.files for p in parts.values()), options)
        _check_parts(inputs, parts, rejections)
        for note in inputs.notes:
            print(note, flush=True)
        identity = _identity(listing, inputs, options, rules, held_out)
        finished = _finished(output, identity)
        if finished:
            shutil.rmtree(output / PARTS, ignore_errors=True)
            print(f"{output}: is complete already, version {finished.version}")
            return finished
        _begin(output, identity)
        common = Common(listing.path, output, inputs.classes, inputs.synsets, rules)
        with _interruptible(output):
            seen = _survey(common, parts["train"].files, options.processes)
            tasks = _shards(common, parts, seen.growth, options.shard_mb)
            _write(tasks, options.processes, rejections)
        origin = Origin(command, identity)
        manifest = _manifest(inputs, tasks, seen, origin, rejections)
        rejections.save(output)
        manifest.save(output)
        listing.close()
    shutil.rmtree(output / PARTS, ignore_errors=True)
    _tell(output, manifest, rejections)
    return manifest


def _check_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is not a folder; choose another --output")
    if (output / FILE_NAME).exists() or (output / PARTS).exists() or not output.exists():
        return
    if any(output.iterdir()):
        raise DataError(f"{output}: is not empty and holds no {FILE_NAME}; choose another --output")


@contextmanager
def _only_writer(output: Path) -> Iterator[None]:
    """Keep two commands from writing the same folder, where its file system has locks."""
    existed = (output / FILE_NAME).exists()
    folder = output if existed else output / PARTS
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TrainerError(f"{output}: another process is writing there; wait for it") from None
        except OSError:
            print(f"note: {output} has no locks; make sure that nothing else writes there")
        yield
    finally:
        os.close(lock)
        with suppress(OSError):
            # Nothing has begun if it is empty.
            (output / PARTS).rmdir()


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


def _finished(output: Path, identity: str) -> Manifest | None:
    if not (output / FILE_NAME).exists():
        return None
    manifest = load_manifest(output)
    if manifest.origin.inputs != identity:
        raise DataError(
            f"{output}: holds another data set, or one of other files or options; remove it or"
            " choose another --output"
        )
    return manifest


def _begin(output: Path, identity: str) -> None:
    """Note what the shards that will come belong to, or make sure that it is the same."""
    begun = output / PARTS / "inputs"
    if not begun.exists():
        partial = begun.with_suffix(".partial")
        partial.write_text(identity)
        partial.replace(begun)
    elif begun.read_text() != identity:
        raise DataError(
            f"{output}: was begun with other files or options; give the same again, or remove it"
        )


@contextmanager
def _interruptible(output: Path) -> Iterator[None]:
    """Say how to go on when a person or a system interrupts."""

    def end(number: int, _: object) -> None:
        raise _InterruptedError(number)

    try:
        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Only a process's main thread gets signals; in another there is nothing to catch.
        before = {}
    try:
        yield
    except _InterruptedError as caught:
        done = sum(1 for _ in (output / PARTS).glob("*.json"))
        error = TrainerError(
            f"interrupted with {done:,} shards finished; the same command continues there"
        )
        error.exit_code = 128 + caught.number
        raise error from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _InterruptedError(BaseException):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


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
    mean, deviation = seen.pixels.mean_and_deviation()
    return Manifest(
        classes=inputs.classes,
        mean=mean,
        deviation=deviation,
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
    print(_listed({k: n for k, n in manifest.origin.treatment.items() if k != "rejected"}))
    rejections.tell(output)
    print(f"{output}: {len(manifest.classes):,} classes, version {manifest.version}")


def _listed(counts: dict[str, int]) -> str:
    ordered: Sequence[tuple[str, int]] = sorted(counts.items(), key=lambda item: -item[1])
    return "; ".join(f"{number:,} {what}" for what, number in ordered)
