"""A whole data set on disk: shards of two splits and their manifest, complete or absent."""

import io
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from common.files import writing
from common.program import load
from trainer.data.example import Record
from trainer.data.formats.tfrecord import write_split
from trainer.data.manifest import FILE_NAME, Manifest, Normalization, Origin, load_manifest
from trainer.errors import DataError
from trainer.leaves import EMBEDDED

TRAIN_SHARDS, VALIDATION_SHARDS = 8, 2


def png_record(
    image: Image.Image,
    label: int,
    classes: Sequence[str],
    name: str,
    more: Mapping[str, bytes] | None = None,
) -> Record:
    """Return an image, stored as PNG, as a record."""
    data = io.BytesIO()
    image.save(data, "PNG")
    return Record(
        data.getvalue(), "PNG", image.height, image.width, label, classes[label], name,
        more=more or {},
    )  # fmt: skip


def run(options: Any, *_: object) -> None:
    """`ml-trainer prepare SOURCE`, for the embedded data set that its options name."""
    write_embedded(options.source, options.output)


def write_embedded(source: str, output: str) -> Manifest:
    """Write an embedded data set and its manifest, complete or not at all.

    Raises:
        DataError: The folder exists and contains something else.
    """
    train, validation, classes = load(EMBEDDED[source].records)()
    command = f"ml-trainer prepare {source} --output {output}"
    normalization = normalization_of(train)
    return write_data_set(Path(output), train, validation, classes, normalization, command)


def normalization_of(records: Sequence[Record]) -> Normalization:
    """Return mean and standard deviation of the pixels of images of one size, by channel."""
    images = (Image.open(io.BytesIO(record.encoded)).convert("RGB") for record in records)
    pixels = np.stack([np.asarray(image) for image in images])
    mean, std = (
        tuple(round(float(value), 3) for value in statistic(pixels.astype(np.float64), (0, 1, 2)))
        for statistic in (np.mean, np.std)
    )
    return Normalization(mean, std)  # type: ignore[arg-type]


def write_data_set(
    folder: Path,
    train: Sequence[Record],
    validation: Sequence[Record],
    classes: tuple[str, ...],
    normalization: Normalization,
    command: str,
) -> Manifest:
    """Write two splits to a temporary folder and rename it when they are complete.

    Args:
        folder: Folder to write; left unchanged if it already holds the same data set.
        train: Training records, in the order of the shards.
        validation: Held-out records.
        classes: Class names in the order of labels.
        normalization: Mean and standard deviation of the training images.
        command: Command that makes the data set, for the manifest.

    Raises:
        DataError: The folder exists and contains something else.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / FILE_NAME).exists():
        raise DataError(f"{folder}: is not empty and has no {FILE_NAME}; choose another --output")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        scratch.chmod(0o755)
        splits = {
            "train": write_split(scratch, "train", train, TRAIN_SHARDS, len(classes)),
            "validation": write_split(
                scratch, "validation", validation, VALIDATION_SHARDS, len(classes)
            ),
        }
        manifest = Manifest(
            classes=classes,
            normalization=normalization,
            splits=splits,
            origin=Origin(command),
        )
        manifest.save(scratch)
        try:
            if folder.exists() and not (folder / FILE_NAME).exists():
                folder.rmdir()
            scratch.rename(folder)
        except OSError:
            # It is complete, perhaps since another node has written it to a shared folder.
            if not (folder / FILE_NAME).exists():
                raise
            if load_manifest(folder).version == manifest.version:
                return manifest
            raise DataError(
                f"{folder}: holds another data set; remove it or choose another --output"
            ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(
        f"{folder}: {len(train):,} training images, {len(validation):,} held-out images, version"
        f" {manifest.version}"
    )
    return manifest
