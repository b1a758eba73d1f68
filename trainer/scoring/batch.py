"""`ml-trainer score`: the classes of all images in a folder, as files of scores.

    list the images, sorted by name, write the list, and divide it into units
    score each unit: write its file, then its description; a restart skips described units
    write the summary when all units are described

The content of a file depends only on the images, the model and the options, so its bytes are the
same whatever the number of processes and machines and however often the work was interrupted.
"""

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import xxhash

from common.errors import ConfigError
from common.files import write_atomically
from common.text import plural
from trainer.data.intake.names import Naming, make_naming
from trainer.data.prepare.output import interruptible
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.errors import CheckpointError, DataError
from trainer.export.layout import FACTS, export_facts, exported_model
from trainer.leaves import TASKS, with_workers
from trainer.scoring.listing import (
    Machine,
    begun_otherwise,
    list_images,
    read_images,
    remove_partials,
    this_machine,
    wait_for,
)
from trainer.scoring.options import ScoreOptions
from trainer.scoring.unit import Unit, description_of, read_description, score_unit

SCHEMA: Final = 1
SUMMARY: Final = "_scores.json"
"""Name of the file that describes all scores, written last. Readers of Parquet folders skip names
that begin with an underscore."""
_OWN: Final = re.compile(
    r"part-\d{5,}\.(parquet|csv)|_part-\d{5,}\.json|_(scores|images)\.json|\..+\.partial"
)
_PART_OF_RUN: Final = ("run", "step", "data_version", "task", "class_names", "top")
"""Entries of an export's description that the summary repeats."""


def run(options: ScoreOptions) -> None:
    """`ml-trainer score`; see `score`."""
    score(*with_workers(options))


def score(options: ScoreOptions, work_through: WorkThrough = work_through) -> None:
    """Write the files of scores, or the part of them that is missing.

    Args:
        options: What to score.
        work_through: Does the units; by default a pool of processes.

    Raises:
        ConfigError: An option is missing or invalid.
        CheckpointError: There is no exported model, or it is not for classes.
        DataError: There are no images, or the output folder has other scores or something else; or
            everything is written, and no image could be scored.
        UserError: The command was interrupted; says what is done and how to continue.
    """
    naming = _check(options)
    machine = this_machine(options)
    saved_model = exported_model(options.run, options.model)
    facts = _read_facts(saved_model)
    source, output = Path(options.input), Path(options.output)
    _check_output(output)
    task = TASKS[facts.get("task", "classification")]
    top = facts["top"] if task.answers.tabular else 0
    mine: list[Unit] = []
    with (
        # Before the images are listed, the files of this machine are unknown.
        interruptible(lambda: plural(_count_done(mine), "file") if mine else "no further file"),
        tempfile.TemporaryDirectory(prefix="score-") as scratch,
    ):
        listing, size = Path(scratch) / "listing.sqlite", options.images_per_file
        images = list_images(source, output, machine, naming, listing)
        identity = _identity(options, saved_model, listing)
        units = [
            Unit(saved_model, source, output, options.format, identity, number, listing, begin,
                 min(begin + size, images), top)
            for number, begin in enumerate(range(0, images, size))
        ]  # fmt: skip
        mine += units[machine.part :: machine.parts]
        missing = [unit for unit in mine if not _is_done(unit)]
        if 0 < len(missing) < len(mine):
            done = len(mine) - len(missing)
            print(f"{output}: continuing, {done:,} of {plural(len(mine), 'file')} finished")
        count = sum(unit.end - unit.begin for unit in missing)
        with work_through(score_unit, missing, count, "scoring", options.processes) as results:
            for _ in results:
                pass
        _finish(options, machine, units, facts)


def _check(options: ScoreOptions) -> Naming:
    """Return how images are named.

    Raises:
        ConfigError: An option is missing or invalid.
    """
    naming, problems = make_naming(options.names, options.name_key, os.environ)
    problems += [
        f"--{name}: is missing; name the folder {what} (with make: {name.upper()}=DIR)"
        for name, value, what in (
            ("input", options.input, "of the images"),
            ("output", options.output, "to write"),
        )
        if not value
    ]
    if problems:
        raise ConfigError(problems)
    return naming


def _read_facts(saved_model: Path) -> dict[str, Any]:
    facts, path = export_facts(saved_model), saved_model.parent / FACTS
    task, top = facts.get("task", "classification"), facts.get("top")
    if not isinstance(top, int) or not isinstance(task, str):
        raise CheckpointError(
            f"{path}: is missing, or has no number of classes `top`; name the folder of an export"
        )
    if task not in TASKS:
        raise CheckpointError(
            f"{saved_model.parent}: is a model for {task}, which this version does not know; use"
            " the version that exported it"
        )
    return facts


def _check_output(output: Path) -> None:
    """Check that the folder contains nothing but scores."""
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is not a folder; choose another --output")
    strange = (
        sorted(e.name for e in output.iterdir() if not _OWN.fullmatch(e.name))
        if output.exists()
        else []
    )
    if strange:
        raise DataError(f"{output}: contains {strange[0]}, not scores; choose another --output")


def _identity(options: ScoreOptions, saved_model: Path, listing: Path) -> str:
    """Return a hash of everything that affects the files. The images count with names and sizes;
    their times differ between copies on several machines.
    """
    total = xxhash.xxh3_128(repr((SCHEMA, options.format, options.images_per_file)).encode())
    for path in sorted(saved_model.rglob("*")):
        if path.is_file():
            total.update(f"{path.relative_to(saved_model).as_posix()}\n".encode())
            total.update(path.read_bytes())
    for _, shown, size in read_images(listing):
        total.update(f"{shown}\n{size}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def _is_done(unit: Unit) -> bool:
    """Return whether a unit's scores are complete.

    Raises:
        DataError: They are of other images, or of another model.
    """
    description = read_description(unit)
    if description is None:
        return False
    if description["identity"] != unit.identity:
        raise begun_otherwise(unit.output)
    try:
        return unit.path.stat().st_size == int(description["bytes"])
    except OSError:
        return False


def _count_done(units: Sequence[Unit]) -> int:
    return sum(description_of(unit).exists() for unit in units)


def _finish(
    options: ScoreOptions, machine: Machine, units: Sequence[Unit], facts: Mapping[str, Any]
) -> None:
    """Write the summary if all units are complete, and say what there is. Of machines that were
    started together the first one writes it alone, and waits for the others.
    """
    output = Path(options.output)
    if machine.launched and not machine.part:
        wait_for(
            # A mount may show a file before its content.
            lambda: _count_done(units) == len(units) and all(map(read_description, units)),
            lambda: f"the other machines: {_count_done(units):,} of {plural(len(units), 'file')}",
        )
    done = Counter[str]()
    for description in filter(None, map(read_description, units)):
        done.update(files=1, images=description["images"], unreadable=description["unreadable"])
    if done["files"] < len(units) or (machine.launched and machine.part):
        print(
            f"{output}: part {machine.part} of {machine.parts} is complete; {done['files']:,} of"
            f" {plural(len(units), 'file')} are written"
        )
        return
    unreadable = done["unreadable"]
    summary = {
        "schema": SCHEMA,
        "identity": units[0].identity,
        "model": {key: facts[key] for key in _PART_OF_RUN if key in facts},
        "format": options.format,
        "files": len(units),
        "images": done["images"],
        "unreadable": unreadable,
    }
    remove_partials(output / SUMMARY, machine)
    write_atomically(output / SUMMARY, json.dumps(summary, indent=1) + "\n")
    print(f"{output}: {plural(done['images'], 'image')} in {plural(len(units), 'file')}")
    if unreadable == done["images"]:
        raise DataError(
            f"{output}: none of {plural(unreadable, 'image')} could be scored, the first because:"
            f" {_first_error(units[0].path)}; the files of scores have the others in their column"
            " error"
        )
    if unreadable:
        print(
            f"warning: {plural(unreadable, 'image')} could not be read; see the column error",
            file=sys.stderr,
        )


def _first_error(scores: Path) -> str:
    import pyarrow.csv  # noqa: PLC0415 only the processes that score need it otherwise
    import pyarrow.parquet  # noqa: PLC0415

    read = pyarrow.csv.read_csv if scores.suffix == ".csv" else pyarrow.parquet.read_table
    return str(read(scores)["error"][0])
