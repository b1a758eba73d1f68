"""What can be known before a rank starts: the data, the numbers of the run, the run folder.

Imports no TensorFlow, except once to write the embedded data set.
"""

import os
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.data.manifest import FILE_NAME, Manifest, Normalization, empty_classes, load_manifest
from trainer.diagnostics.environment import cores
from trainer.errors import DataError
from trainer.run_folder import RunFolder, check_continues, new_name
from trainer.training.plan import Plan, make_plan

SYNTHETIC_CLASSES = 1000
DIGITS_FOLDER = "data/digits"


@dataclass(frozen=True)
class Prepared:
    """A run that can start."""

    plan: Plan
    classes: int
    folder: Path | None
    """Folder of the data; none for synthetic data."""
    manifest: Manifest | None

    @property
    def data_version(self) -> str:
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


def data_folder(config: TrainConfig) -> Path | None:
    """Where a configuration reads its data; none for synthetic data."""
    if config.data.source == "synthetic":
        return None
    return Path(config.data.dir or DIGITS_FOLDER)


def ensure_data(config: TrainConfig) -> None:
    """Write the embedded data set if it is asked for and not there."""
    folder = data_folder(config)
    if config.data.source == "digits" and folder and not (folder / FILE_NAME).exists():
        from trainer.data.builtin.digits import prepare_digits

        prepare_digits(str(folder))


def prepare(config: TrainConfig, ranks: int) -> Prepared:
    """Read the manifest and derive the run's numbers.

    Args:
        config: what to train.
        ranks: processes that take part.

    Raises:
        DataError: no data, or data that do not fit their manifest.
        ConfigError: the data do not fit the configuration.
    """
    folder = data_folder(config)
    if folder is None:
        classes = config.model.classes or SYNTHETIC_CLASSES
        return Prepared(
            make_plan(config, ranks, config.data.synthetic_examples), classes, None, None
        )
    manifest = load_manifest(folder)
    for split in ("train", "validation"):
        if split not in manifest.splits or not manifest.splits[split].examples:
            raise DataError(f"{folder}: has no images in the split {split!r}")
    _check_classes(manifest, folder)
    classes = len(manifest.classes)
    if config.model.classes not in (None, classes):
        raise ConfigError(
            [f"--model.classes: {config.model.classes}, but {folder} has {classes} classes"]
        )
    plan = make_plan(config, ranks, manifest.splits["train"].examples)
    return Prepared(plan, classes, folder, manifest)


def _check_classes(manifest: Manifest, folder: Path) -> None:
    counts = manifest.splits["train"].class_counts
    present = [name for name, count in zip(manifest.classes, counts, strict=True) if count]
    if len(present) < 2:
        raise DataError(
            f"{folder}: all training images are of the class {present[0]!r}, so there is nothing to"
            " learn; prepare a data set with images of at least two classes"
        )


def check(config: TrainConfig) -> str:
    """Refuse, before a rank is started, whatever would fail in every rank; returns the run's
    name.
    """
    ensure_data(config)
    prepared = prepare(config, config.ranks)
    name = config.name or new_name(config, datetime.now().astimezone())
    run = RunFolder(Path(config.runs_dir) / name)
    check_continues(run, config, prepared.plan.global_batch, prepared.data_version)
    existing = next(path for path in (run.path, *run.path.absolute().parents) if path.exists())
    if not os.access(existing, os.W_OK):
        raise ConfigError([f"--runs-dir: {existing} cannot be written to"])
    return name


def warn(prepared: Prepared, local_ranks: int) -> None:
    """Say what will work, but perhaps not as meant."""
    notes = []
    if local_ranks > cores():
        notes.append(
            f"{local_ranks} ranks share {cores()} cores and will take turns; --ranks {cores()}"
            " gives each its own"
        )
    if prepared.manifest:
        empty = empty_classes(prepared.manifest, "train")
        if empty:
            shown = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
            notes.append(f"no training images for {len(empty)} of the classes: {shown}")
    for note in notes:
        print(f"warning: {note}", file=sys.stderr, flush=True)
