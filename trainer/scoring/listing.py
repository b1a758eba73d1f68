"""The listing of the images, and the machines that share them.

The listing is a file next to the scores. If one launcher has started the machines, the first lists
the images, the others wait for its file, and the first waits for their scores. Each machine also
has the names in a database, from which its processes read those of their files, so that millions of
images need no memory.
"""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, TextIO

from common.errors import ConfigError
from common.files import parse_object, replacing
from common.image_files import ImageFiles
from trainer.data.intake.names import Naming
from trainer.data.prepare.on_disk import decoded, encoded, scratch_database
from trainer.distributed.rank import launched_as
from trainer.errors import DataError
from trainer.scoring.options import ScoreOptions

LISTING: Final = "_images.json"
"""Name of the file with the names and sizes of all images."""
_POLL_SECONDS: Final = 1.0
_TOLD_EVERY: Final = 30.0
"""Seconds between two lines about the wait of a machine."""
_REPORT_EVERY: Final = 100_000
"""Images between two lines about the listing."""
_SORT: Final = """
CREATE TABLE image (place INTEGER PRIMARY KEY, name BLOB, shown TEXT, size INTEGER);
INSERT INTO image SELECT row_number() OVER (ORDER BY name) - 1, name, shown, size FROM listed;
"""


@dataclass(frozen=True)
class Machine:
    """One of the machines that share the files."""

    part: int = 0
    """Its number, from 0."""
    parts: int = 1
    """Number of machines."""
    launched: bool = False
    """Whether one launcher has started them all, so that they can wait for each other."""


def this_machine(options: ScoreOptions) -> Machine:
    """Return which of the machines this is, by the options or by mpirun.

    Raises:
        ConfigError: There are not so many parts.
    """
    launched = launched_as(os.environ)
    if options.parts is None and options.part is None and launched is not None:
        return Machine(launched.rank, launched.size, launched.size > 1)
    machine = Machine(options.part or 0, options.parts or 1)
    if machine.part >= machine.parts:
        raise ConfigError(
            [f"--part: {machine.part} must be below --parts {machine.parts}; parts count from 0"]
        )
    return machine


def list_images(source: Path, output: Path, machine: Machine, naming: Naming, listing: Path) -> int:
    """Write names and sizes of all images into a database, and to the folder of the scores, unless
    another machine does; return their number. If they get new names, the folder has only these.

    Args:
        source: Folder of the images.
        output: Folder of the scores.
        machine: This machine.
        naming: How images are named in the scores.
        listing: File of the database, for `read_images`.

    Raises:
        DataError: There are no images, or the scores were begun with others.
    """
    path = output / LISTING
    if machine.launched and machine.part:
        wait_for(path.exists, lambda: "the list of the images")
        if not naming.changes:
            return write_images(listing, _read(path), naming)
    if not source.is_dir():
        raise DataError(f"{source}: is not a folder; name the folder of the images as --input")
    files = ImageFiles()
    sizes = (
        (image.relative_to(source).as_posix(), image.stat().st_size)
        for image in files.below(source, DataError)
    )
    count = write_images(listing, sizes, naming)
    if files.note and not naming.changes:
        print(f"note: {files.note}", file=sys.stderr)
    shown = ((shown, size) for _, shown, size in read_images(listing))
    if not path.exists():
        remove_partials(path, machine)
        _write(path, shown)
    elif any(before != now for before, now in zip_longest(_read(path), shown)):
        raise begun_otherwise(output)
    return count


def write_images(listing: Path, images: Iterable[tuple[str, int]], naming: Naming) -> int:
    """Write names and sizes of images, in any order, for `read_images`; return their number."""

    def rows() -> Iterator[tuple[bytes, str | None, int]]:
        for number, (name, size) in enumerate(images, 1):
            if number % _REPORT_EVERY == 0:
                print(f"listing: {number:,} images so far", flush=True)
            shown = naming.hashed(os.fsencode(name)) if naming.changes else None
            yield encoded(name), shown, size

    schema = "CREATE TEMP TABLE listed (name BLOB, shown TEXT, size INTEGER);"
    with closing(scratch_database(schema, listing)) as database:
        count = database.executemany("INSERT INTO listed VALUES (?, ?, ?)", rows()).rowcount
        database.executescript(_SORT)
    return count


def read_images(
    listing: Path, begin: int = 0, end: int = sys.maxsize
) -> Iterator[tuple[str, str, int]]:
    """Yield name, name in the scores and size of the images [begin, end), sorted by name."""
    query = "SELECT name, shown, size FROM image WHERE place >= ? AND place < ? ORDER BY place"
    with closing(sqlite3.connect(listing)) as database:
        for encoded_name, shown, size in database.execute(query, (begin, end)):
            name = decoded(encoded_name)
            yield name, shown or name, size


def wait_for(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for another machine, which ends this one if it fails.

    Args:
        condition: Checks whether the other machine has done it.
        what: Says what is missing.
    """
    last_note = time.monotonic()
    while not condition():
        time.sleep(_POLL_SECONDS)
        if time.monotonic() - last_note > _TOLD_EVERY:
            last_note = time.monotonic()
            print(f"waiting for {what()}", flush=True)


def remove_partials(path: Path, machine: Machine) -> None:
    """Remove the part of a file that a killed process has left, unless another machine may write it
    now.
    """
    if machine.launched or machine.parts == 1:
        for partial in path.parent.glob(f".{path.name}-*.partial"):
            partial.unlink(missing_ok=True)


def begun_otherwise(output: Path) -> DataError:
    """Return the error about scores of something else."""
    return DataError(
        f"{output}: was begun with other images, another model or other options; remove it or"
        " choose another --output"
    )


def _write(path: Path, images: Iterable[tuple[str, int]]) -> None:
    """Write a JSON object with a line for each image."""
    begin = b"{\n"
    with replacing(path) as file:
        for name, size in images:
            file.write(begin + f"{json.dumps(name)}: {size}".encode())
            begin = b",\n"
        file.write(b"\n}\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> Iterator[tuple[str, int]]:
    """Yield what `_write` has written."""
    try:
        with path.open(encoding="utf-8") as file:
            yield from _entries(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it to list again") from error


def _entries(file: TextIO) -> Iterator[tuple[str, int]]:
    """Yield names and sizes.

    Raises:
        ValueError: It is not what `_write` writes.
    """
    if file.readline() != "{\n":
        raise ValueError("it does not begin with a line {")
    end = ",\n"
    while (line := file.readline()) != "}\n":
        if end != ",\n" or not line:
            raise ValueError("it is incomplete")
        end = ",\n" if line.endswith(",\n") else "\n"
        for name, size in parse_object("{" + line.removesuffix(end) + "}").items():
            if type(size) is not int:
                raise ValueError(f"the size of {name!r} is not a whole number")
            yield name, size
    if file.read(1) or end == ",\n":
        raise ValueError("it lists no image at its end, or has more after it")
