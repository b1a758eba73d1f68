"""The export of a run: a SavedModel whose signatures need none of our code, and its facts.

RUN/export/ has `saved_model/`, `export.json` and, if asked for, `model.onnx`. It is written beside
its place and renamed, so it is complete or absent. The weights are float32, also of a run that was
trained in mixed precision, and nothing is compiled by XLA.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from trainer import __version__
from trainer.checkpoints.snapshot import snapshot
from trainer.checkpoints.tensors import Tensors
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import DataError
from trainer.export.layout import FACTS, FOLDER, SAVED_MODEL
from trainer.export.signatures import serving_module
from trainer.model.trained import load_model, variables_by_name
from trainer.run_folder import RunFolder
from trainer.training.evaluator import Evaluation
from trainer.training.setup import Prepared

SCHEMA = 1
TOP = 5
"""Classes that serving_default gives, unless told otherwise."""


@dataclass(frozen=True)
class Trained:
    """The weights of a step of a run, and all that an export needs beside them."""

    config: TrainConfig
    class_names: tuple[str, ...]
    normalization: Normalization
    data_version: str
    step: int
    evaluation: dict[str, Any] | None
    """Of these very weights on the held-out images, if there was one."""
    tensors: Tensors
    """A checkpoint's, by name."""
    origin: Path
    """Where they come from, for errors."""

    def facts(self, top: int) -> dict[str, Any]:
        """What export.json says."""
        model, classes = self.config.model, self.class_names
        return {
            "schema": SCHEMA,
            "run": self.config.name,
            "step": self.step,
            "data_version": self.data_version,
            "class_names": list(classes),
            "top": min(top, len(classes)),
            "image_size": model.image_size,
            "eval_crop": self.config.data.eval_crop,
            "mean": list(self.normalization.mean),
            "deviation": list(self.normalization.std),
            "model": {"depth": model.depth, "width": model.width, "stem": model.stem},
            "evaluation": self.evaluation,
            "code_version": __version__,
        }


def export_model(
    folder: RunFolder,
    config: TrainConfig,
    prepared: Prepared,
    model: keras.Model,
    step: int,
    evaluation: Evaluation | None,
) -> Path:
    """Export the model of a run that is complete, at its end; the model is only read.

    Args:
        folder: of the run.
        config: the run's.
        prepared: the data that it was trained on.
        model: with the final weights.
        step: steps done.
        evaluation: of these very weights, if there was one.

    Returns:
        The folder of the export.

    Raises:
        UserError: it cannot be written; the run itself is complete.
    """
    trained = Trained(
        config,
        prepared.class_names,
        prepared.normalization,
        prepared.data_version,
        step,
        asdict(evaluation) if evaluation else None,
        snapshot(variables_by_name(model)),
        folder.path,
    )
    try:
        write_export(trained, folder.path / FOLDER)
    except (OSError, UserError, tf.errors.OpError) as error:
        raise UserError(
            f"{folder.path}: the run is complete and its result.json written, but it could not be"
            f" exported: {error}\nto try again: python -m trainer export --run {folder.path}"
        ) from error
    return folder.path / FOLDER


def write_export(
    trained: Trained, output: Path, top: int = TOP, extra: Callable[[Path], None] | None = None
) -> None:
    """Write an export; one that is there stays until the new one is complete.

    Args:
        trained: what to export.
        output: its folder.
        top: classes that serving_default gives; at most all of them.
        extra: adds more to the folder it is given; what it raises means that nothing is kept.

    Raises:
        DataError: the folder holds something else.
        OSError: it cannot be written.
    """
    output = output.resolve()
    _recover(output)
    if output.exists() and not _is_export(output):
        raise DataError(f"{output}: exists and is no export; choose another --output")
    scratch = output.with_name(f".{output.name}.partial")
    # Also what a process left behind that was killed.
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        _save_model(trained, scratch / SAVED_MODEL, top)
        if extra:
            extra(scratch)
        text = json.dumps(trained.facts(top), indent=1, ensure_ascii=False)
        (scratch / FACTS).write_text(text + "\n", encoding="utf-8")
        _replace(scratch, output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_export(folder: Path) -> bool:
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / FACTS).is_file())


def _save_model(trained: Trained, place: Path, top: int) -> None:
    config, classes = trained.config, len(trained.class_names)
    model = load_model(config, classes, "float32", trained.tensors, trained.origin)
    module, signatures = serving_module(
        model,
        trained.class_names,
        trained.normalization,
        config.model.image_size,
        config.data.eval_crop,
        top,
    )
    with only_errors("tensorflow", "absl"):
        tf.saved_model.save(module, str(place), signatures=signatures)


def exported_step(run: Path) -> int | None:
    """The step whose weights a run's export has, if there is a complete one."""
    try:
        return int(json.loads((run / FOLDER / FACTS).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.old")


def _recover(place: Path) -> None:
    """Put back what an attempt had set aside that was killed between its two renames."""
    if not place.exists() and _aside(place).exists():
        _aside(place).rename(place)


def _replace(new: Path, place: Path) -> None:
    """Put a folder in the place of another; a folder that is not empty cannot be renamed over."""
    old = _aside(place)
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    try:
        new.rename(place)
    except OSError:
        if old.exists():
            old.rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def only_errors(*names: str) -> Iterator[None]:
    """Let some loggers pass errors only: their notes are about internals."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
