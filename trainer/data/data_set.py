"""The data set of a configuration, as far as it is known before any record is read.

Imports no TensorFlow, except once to write an embedded data set.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from common.program import load
from trainer.config import TrainConfig
from trainer.data.intake.record import Intake
from trainer.data.manifest import (
    FILE_NAME,
    Manifest,
    Normalization,
    check_trainable,
    joined,
    load_manifest,
)
from trainer.errors import DataError
from trainer.leaves import EMBEDDED

SYNTHETIC_CLASSES = 1000


@dataclass(frozen=True)
class DataSet:
    """Folder, size and classes of a data set."""

    folder: Path | None
    """Folder of the shards, which need not be that of the manifest; None for synthetic data."""
    manifest: Manifest | None
    """Manifest of the data set; None for synthetic data."""
    classes: int
    training_examples: int
    """Images in the training split."""

    @property
    def version(self) -> str:
        """Version in the manifest; data sets of the same version give the same training."""
        return self.manifest.version if self.manifest else "synthetic"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in the order of labels; synthetic classes are numbered. Bytes of a name that
        are not UTF-8 are escapes, so that every file and export can hold it.
        """
        if self.manifest is None:
            return tuple(f"class {number}" for number in range(self.classes))
        names = self.manifest.classes
        return tuple(name.encode(errors="backslashreplace").decode() for name in names)

    @property
    def normalization(self) -> Normalization:
        """Normalization of the images; for synthetic data that of random bytes."""
        if self.manifest is None:
            return Normalization((127.5,) * 3, (73.9,) * 3)
        return self.manifest.normalization

    @property
    def levels(self) -> tuple[float, float] | None:
        """Values that became 0 and 255 in images of more than 8 bits; None if there are none."""
        return self._intake.levels if self._intake else None

    @property
    def reencode(self) -> tuple[int, int] | None:
        """Short side to which images were shrunk, and quality; None if images were kept."""
        return self._intake.reencode if self._intake else None

    @property
    def _intake(self) -> Intake | None:
        return self.manifest.origin.intake if self.manifest else None

    def evaluating(self, split: str) -> Self:
        """Return this data set with the images of a split in the place of the held-out ones.

        Args:
            split: Name of the split; all is all of them together.

        Raises:
            DataError: There is no such split.
        """
        if self.manifest is None or split == "validation":
            return self
        splits = self.manifest.splits
        if split != "all" and split not in splits:
            raise DataError(
                f"{self.folder}: has no split {split!r}, only {', '.join(splits)}; prepare it with"
                " --test, or with a folder test next to train and validation"
            )
        chosen = joined(list(splits.values())) if split == "all" else splits[split]
        manifest = replace(self.manifest, splits={**splits, "validation": chosen})
        return replace(self, manifest=manifest)

    def check_version(self, version: str, run: Path) -> None:
        """Check that a run was trained on this version.

        Raises:
            DataError: The run was trained on another version.
        """
        if self.version != version:
            raise DataError(
                f"{self.folder}: has version {self.version}, but {run} was trained on {version};"
                " prepare that version again"
            )


def write_embedded_if_missing(config: TrainConfig) -> None:
    """Write the embedded data set if the configuration uses it and it does not exist.

    Raises:
        DataError: The folder contains something else.
    """
    folder = manifest_folder(config)
    embedded = EMBEDDED.get(config.data.source)
    if not embedded or not folder or (folder / FILE_NAME).exists():
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise DataError(
            f"{folder}: has no {FILE_NAME} and is not empty, so the embedded data set"
            f" {embedded.source} is not written there; to train on your own images, run"
            f" `ml-trainer prepare folder --input {folder}`, and train with --preset images;"
            " otherwise choose another --data.dir"
        )
    load("trainer.data.builtin.writer:write_embedded")(embedded.source, str(folder))


def load_data_set(config: TrainConfig) -> DataSet:
    """Read the manifest of the data set of a configuration.

    Raises:
        DataError: The data are missing, or do not match their manifest.
        ConfigError: The data do not match the configuration.
    """
    folder = manifest_folder(config)
    if folder is None:
        classes = config.model.classes or SYNTHETIC_CLASSES
        return DataSet(None, None, classes, config.data.synthetic_examples)
    manifest = load_manifest(folder)
    check_trainable(manifest, config.model.classes, str(folder), config.described_task)
    examples = manifest.splits["train"].examples
    return DataSet(manifest.folder(folder), manifest, len(manifest.classes), examples)


def manifest_folder(config: TrainConfig) -> Path | None:
    """Return the folder of the manifest of a configuration; None for synthetic data."""
    if config.data.source == "synthetic":
        return None
    return Path(config.data.dir or f"data/{config.data.source}")
