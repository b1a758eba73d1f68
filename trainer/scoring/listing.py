"""The listing of the images, and the machines that share them.

The listing is a file next to the scores. If one launcher has started the machines, the first lists
the images, the others wait for its file, and the first waits for their scores.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.errors import ConfigError
from common.files import parse_object, write_atomically
from common.image_files import find_images
from trainer.data.intake.names import Naming
from trainer.distributed.rank import launched_as
from trainer.errors import DataError
from trainer.scoring.options import ScoreOptions

LISTING: Final = "_images.json"
"""Name of the file with the names and sizes of all images."""
_POLL_SECONDS: Final = 1.0
_TOLD_EVERY: Final = 30.0
"""Seconds between two lines about the wait of a machine."""


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
            [f"--part: {machine.part}, but --parts {machine.parts} are 0 to {machine.parts - 1}"]
        )
    return machine


def list_images(source: Path, output: Path, machine: Machine, naming: Naming) -> dict[str, int]:
    """Return the sizes of all images by their names below the folder, sorted, and write them to the
    folder of the scores, unless another machine does. If they get new names, these are written.

    Raises:
        DataError: There are no images, or the scores were begun with others.
    """
    path = output / LISTING
    if machine.launched and machine.part:
        wait_for(path.exists, lambda: "the list of the images")
        if not naming.changes:
            return _read(path)
    if not source.is_dir():
        raise DataError(f"{source}: is not a folder; name the folder of the images as --input")
    listing = find_images([str(source)], DataError)
    if listing.note and not naming.changes:
        print(f"note: {listing.note}", file=sys.stderr)
    sizes = {image.relative_to(source).as_posix(): image.stat().st_size for image in listing.paths}
    images = dict(sorted(sizes.items()))
    shown = shown_names(images, naming)
    if not path.exists():
        remove_partials(path, machine)
        write_atomically(path, json.dumps(shown, indent=0) + "\n", sync=True)
    elif _read(path) != shown:
        raise begun_otherwise(output)
    return images


def shown_names(images: Mapping[str, int], naming: Naming) -> dict[str, int]:
    """Return the sizes of images by the names that outputs show, in the same order."""
    if not naming.changes:
        return dict(images)
    return {naming.hashed(os.fsencode(name)): size for name, size in images.items()}


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


def _read(path: Path) -> dict[str, int]:
    try:
        images: dict[str, int] = parse_object(path.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it to list again") from error
    return images
