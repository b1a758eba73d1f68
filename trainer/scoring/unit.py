"""One file of scores, from its images to its description: the unit of work, which a restart keeps.

A row has the name of an image, its most probable class in `class_id`, `class_name` and
`probability`, the next ones in `class_id_2` and so on, and in `error` why an image could not be
read. If images do not all have equally many answers, `answers` has those of each as JSON instead.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import xxhash

from common.errors import UserError
from common.files import parse_json, write_atomically
from trainer.data.prepare.pool import Advance
from trainer.export.layout import export_facts
from trainer.scoring.listing import read_images

_TOLD_EVERY = 32
"""Images between two updates of the counter that all processes share."""


@dataclass(frozen=True)
class Unit:
    """A file to write."""

    saved_model: Path
    """Folder of the SavedModel."""
    source: Path
    """Folder that the names of the images start from."""
    output: Path
    """Folder to write."""
    format: str
    """Format: parquet or csv."""
    identity: str
    """Hash of everything that affects the scores, which the description repeats."""
    number: int
    listing: Path
    """File with the names of all images; see `read_images`."""
    begin: int
    """Place of the first image, from 0."""
    end: int
    """Place after that of the last image."""
    top: int
    """Classes of each image; 0 if their number differs."""

    @property
    def path(self) -> Path:
        """File of the scores."""
        return self.output / f"part-{self.number:05d}.{self.format}"


def description_of(unit: Unit) -> Path:
    """Return the file that describes a unit, once its scores are complete."""
    return unit.output / f"_part-{unit.number:05d}.json"


def read_description(unit: Unit) -> dict[str, Any] | None:
    """Read the description of a unit; None if there is none."""
    try:
        description: dict[str, Any] = parse_json(description_of(unit).read_text())
        counts = [description[key] for key in ("images", "unreadable", "bytes")]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    whole = all(isinstance(count, int) for count in counts) and "identity" in description
    return description if whole else None


def score_unit(unit: Unit, advance: Advance) -> None:
    """Write a file of scores, wait until it is on disk, and only then write its description.

    Raises:
        CheckpointError: The model cannot be loaded.
        UserError: The file cannot be written.
    """
    rows = list(_rows(unit, advance))
    data = _encode(rows, unit)
    description = {
        "identity": unit.identity,
        "file": unit.path.name,
        "images": len(rows),
        "unreadable": sum(isinstance(outcome, str) for _, outcome in rows),
        "bytes": len(data),
        "xxh3": xxhash.xxh3_64_hexdigest(data),
    }
    try:
        for path in (unit.path, description_of(unit)):
            # Left by a process that was killed.
            for partial in unit.output.glob(f".{path.name}-*.partial"):
                partial.unlink(missing_ok=True)
        write_atomically(unit.path, data, sync=True)
        write_atomically(description_of(unit), json.dumps(description, indent=1) + "\n", sync=True)
    except OSError as error:
        raise UserError(
            f"{unit.path}: cannot be written ({error.strerror}); run the same command again to"
            " continue"
        ) from error


def _rows(unit: Unit, advance: Advance) -> Iterator[tuple[str, Any]]:
    """Yield each image with its classes, or with its fault."""
    # Not before this process exists: TensorFlow does not survive a fork.
    from trainer.export.predict import classify_files  # noqa: PLC0415

    signature = _load(unit.saved_model).signatures["serving_default"]
    images = list(read_images(unit.listing, unit.begin, unit.end))
    paths = (unit.source / name for name, _, _ in images)
    outcomes = classify_files(signature, paths, export_facts(unit.saved_model))
    for number, ((_, shown, _), (_, outcome)) in enumerate(zip(images, outcomes, strict=True), 1):
        yield shown, outcome
        if number % _TOLD_EVERY == 0:
            advance(_TOLD_EVERY)
    advance(len(images) % _TOLD_EVERY)


@cache
def _load(saved_model: Path) -> Any:
    # The order of sums, and so the last bits of a probability, may depend on the number of threads.
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    import tensorflow as tf  # noqa: PLC0415

    from trainer.export.predict import load_exported  # noqa: PLC0415

    # A GPU would be shared by the processes, and round differently.
    tf.config.set_visible_devices([], "GPU")
    return load_exported(saved_model)


def _encode(rows: Sequence[tuple[str, Any]], unit: Unit) -> bytes:
    """Encode the table of scores."""
    # A name need not be valid UTF-8.
    names = [name.encode(errors="backslashreplace").decode() for name, _ in rows]
    columns: dict[str, Any] = {"image": pa.array(names, pa.string())}
    types = {"class_id": pa.int64(), "class_name": pa.string(), "probability": pa.float32()}
    classes = [None if isinstance(outcome, str) else outcome for _, outcome in rows]
    if not unit.top:
        columns["answers"] = pa.array(
            [
                None if answer is None else json.dumps(answer, ensure_ascii=False)
                for answer in classes
            ],
            pa.string(),
        )
    for number in range(unit.top):
        for key, kind in types.items():
            values = [None if answer is None else answer[number][key] for answer in classes]
            columns[key if number == 0 else f"{key}_{number + 1}"] = pa.array(values, kind)
    errors = [outcome if isinstance(outcome, str) else None for _, outcome in rows]
    columns["error"] = pa.array(errors, pa.string())
    encoded, table = BytesIO(), pa.table(columns)
    if unit.format == "csv":
        pa.csv.write_csv(table, encoded)
    else:
        pa.parquet.write_table(table, encoded, compression="zstd")
    return encoded.getvalue()
