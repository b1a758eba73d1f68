"""A whole data set on disk: shards of two splits and their manifest, complete or absent."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainer.data.manifest import FILE_NAME, Manifest, Normalization, Origin, load_manifest
from trainer.data.tfrecord import Record, write_split
from trainer.errors import DataError

TRAIN_SHARDS, HELD_OUT_SHARDS = 8, 2


def write_dataset(
    folder: Path,
    train: Sequence[Record],
    held_out: Sequence[Record],
    classes: tuple[str, ...],
    statistics: tuple[float, float],
    command: str,
) -> Manifest:
    """Write two splits beside their place and move them there when complete.

    Args:
        folder: to write; one that holds the same data set already stays as it is.
        train: records to train on, in the order of the shards.
        held_out: records to evaluate on.
        classes: names in the order of labels.
        statistics: mean and standard deviation of all pixels, 0 to 255.
        command: what made it, for the manifest.

    Raises:
        DataError: the folder exists and holds something else.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / FILE_NAME).exists():
        raise DataError(f"{folder}: is not empty and holds no {FILE_NAME}; choose another --output")
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        scratch.chmod(0o755)
        mean, std = statistics
        splits = {
            "train": write_split(scratch, "train", train, TRAIN_SHARDS, len(classes)),
            "validation": write_split(
                scratch, "validation", held_out, HELD_OUT_SHARDS, len(classes)
            ),
        }
        manifest = Manifest(
            classes=classes,
            normalization=Normalization((mean,) * 3, (std,) * 3),
            splits=splits,
            origin=Origin(command),
        )
        manifest.save(scratch)
        if folder.exists() and (folder / FILE_NAME).exists():
            if load_manifest(folder).version == manifest.version:
                return manifest
            raise DataError(
                f"{folder}: holds another data set; remove it or choose another --output"
            )
        if folder.exists():
            folder.rmdir()
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(
        f"{folder}: {len(train):,} images to train on, {len(held_out):,} held out, version"
        f" {manifest.version}"
    )
    return manifest
