"""Records of small pictures, and data sets of them that are written by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from trainer.data.example import Record, example_parts
from trainer.data.formats.tfrecord import write_split
from trainer.data.manifest import Manifest, Normalization, Origin

NORMALIZATION = Normalization((100.0,) * 3, (50.0,) * 3)


def plain_record(number: int, label: int) -> Record:
    """A picture of 8 x 8 pixels whose colour is its number."""
    colour = (number % 256, number // 256, 7)
    encoded = saved(Image.new("RGB", (8, 8), colour), "PNG")
    return Record(encoded, "PNG", 8, 8, label, str(label), f"{number}.png")


def noise_record(number: int, label: int, kind: str = "PNG", **changes: Any) -> Record:
    """A picture of noise, of another height than its neighbours'."""
    shape = (6 + number % 40, 9, 3)
    pixels = np.random.default_rng(number).integers(0, 256, shape, np.uint8)
    encoded = saved(Image.fromarray(pixels), kind)
    name = f"{number}.{kind.lower()}"
    return replace(Record(encoded, kind, *shape[:2], label, f"class {label}", name), **changes)


def to_example(record: Record) -> bytes:
    """A record as it is stored."""
    return b"".join(example_parts(record))


def write_records(
    folder: Path,
    train: Sequence[Record],
    validation: Sequence[Record],
    classes: Sequence[str],
    shards: tuple[int, int] = (3, 1),
    **changes: Any,
) -> Manifest:
    """Write a data set whose manifest describes exactly these records.

    Args:
        folder: to write.
        train: records to train on.
        validation: records to evaluate on.
        classes: names in the order of labels.
        shards: of each split.
        changes: to the manifest.
    """
    folder.mkdir(parents=True, exist_ok=True)
    splits = {
        name: write_split(folder, name, records, count, len(classes))
        for (name, records), count in zip(
            {"train": train, "validation": validation}.items(), shards, strict=True
        )
    }
    manifest = Manifest(tuple(classes), NORMALIZATION, splits, Origin("test"))
    manifest = replace(manifest, **changes)
    manifest.save(folder)
    return manifest
