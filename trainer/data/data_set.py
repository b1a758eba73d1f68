"""The data set that a configuration names, as far as it is known before any of it is read.

Imports no TensorFlow, except once to write the embedded digits.
"""

from dataclasses import dataclass
from pathlib import Path

from trainer.config import TrainConfig
from trainer.data.manifest import (
    FILE_NAME,
    Manifest,
    Normalization,
    check_trainable,
    load_manifest,
)
from trainer.errors import DataError

SYNTHETIC_CLASSES = 1000
DIGITS_FOLDER = "data/digits"


@dataclass(frozen=True)
class DataSet:
    """Where the images are, how many there are, and what they show."""

    folder: Path | None
    """Folder of the shards; None for synthetic data."""
    manifest: Manifest | None
    """None for synthetic data."""
    classes: int
    training_examples: int
    """Images in the training split."""

    @property
    def version(self) -> str:
        """The manifest's; data sets of one version train alike."""
        return self.manifest.version if self.manifest else "synthetic"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names in the order of labels; synthetic classes are numbered."""
        if self.manifest is None:
            return tuple(f"class {number}" for number in range(self.classes))
        return self.manifest.classes

    @property
    def normalization(self) -> Normalization:
        """Of the data set; of synthetic data, the middle and spread of a byte."""
        if self.manifest is None:
            return Normalization((127.5,) * 3, (73.9,) * 3)
        return self.manifest.normalization

    def check_version(self, version: str, run: Path) -> None:
        """Make sure that a run was trained on this version.

        Raises:
            DataError: it was trained on another one.
        """
        if self.version != version:
            raise DataError(
                f"{self.folder}: has version {self.version}, but {run} was trained on {version};"
                " prepare that data set again"
            )


def write_digits_if_missing(config: TrainConfig) -> None:
    """Write the embedded data set if it is asked for and not there."""
    folder = _folder(config)
    if config.data.source == "digits" and folder and not (folder / FILE_NAME).exists():
        from trainer.data.builtin.digits import prepare_digits

        prepare_digits(str(folder))


def load_data_set(config: TrainConfig) -> DataSet:
    """Read the manifest of the data set that a configuration names.

    Raises:
        DataError: no data, or data that do not fit their manifest.
        ConfigError: the data do not fit the configuration.
    """
    folder = _folder(config)
    if folder is None:
        classes = config.model.classes or SYNTHETIC_CLASSES
        return DataSet(None, None, classes, config.data.synthetic_examples)
    manifest = load_manifest(folder)
    check_trainable(manifest, config.model.classes, str(folder))
    examples = manifest.splits["train"].examples
    return DataSet(folder, manifest, len(manifest.classes), examples)


def _folder(config: TrainConfig) -> Path | None:
    if config.data.source == "synthetic":
        return None
    return Path(config.data.dir or DIGITS_FOLDER)
