"""The export of a run: a folder with a SavedModel that needs none of our code, and its facts.

RUN/export/ has `saved_model/`, `export.json` and, if asked for, `model.onnx`. It is written beside
its place and renamed, so it is complete or absent.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from trainer import __version__
from trainer.checkpoints.format import Tensors
from trainer.checkpoints.snapshot import snapshot
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import DataError
from trainer.export.layout import FACTS, FOLDER, ONNX, SAVED_MODEL
from trainer.export.saved_model import save_model
from trainer.model.weights import load_model, variables_by_name
from trainer.run_folder import RunFolder, Which, find_checkpoint
from trainer.training.evaluator import Evaluation
from trainer.training.setup import Prepared, prepare

SCHEMA = 1
TOP = 5
"""Classes that serving_default gives, unless told otherwise."""


def export_run(run: str, which: Which, output: str | None, top: int, *, onnx: bool) -> Path:
    """Export a checkpoint and print where it is.

    Args:
        run: folder of the run.
        which: the checkpoint.
        output: folder to write; none is `export` in the run's.
        top: classes that serving_default gives.
        onnx: whether to write model.onnx as well.

    Returns:
        The folder of the export.

    Raises:
        CheckpointError: not a run, or no valid checkpoint in it.
        DataError: the output holds something else; or the run is of a version that did not keep
            its classes, and its data set is not there.
        UserError: the ONNX model differs from the SavedModel.
    """
    # An export computes next to nothing, and the GPUs may be training.
    tf.config.set_visible_devices([], "GPU")
    folder = RunFolder(Path(run))
    config = folder.config()
    found = find_checkpoint(folder, which)
    version = folder.stored()["data_version"]
    trained = Trained(
        config,
        *_class_names_and_normalization(folder, config, version),
        version,
        found.step,
        found.meta["evaluation"],
        found.load(),
        found.path,
    )
    notes = []

    def add_onnx(place: Path) -> None:
        from trainer.export.onnx import write_onnx  # noqa: PLC0415 its packages are in no image

        difference = write_onnx(place / SAVED_MODEL, place / ONNX)
        notes.append(f"; {ONNX} differs by at most {difference:.2g} in a probability")

    place = Path(output) if output else folder.path / FOLDER
    try:
        write_export(trained, place, top, add_onnx if onnx else None)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"{place}: the export cannot be written: {error}") from error
    print(f"{place}: SavedModel of {found.path}{''.join(notes)}")
    return place


def _class_names_and_normalization(
    folder: RunFolder, config: TrainConfig, version: str
) -> tuple[tuple[str, ...], Normalization]:
    """As the run keeps them; of an older run, from its data set."""
    kept = folder.class_names_and_normalization()
    if kept is not None:
        return kept
    try:
        prepared = prepare(config, 1)
    except DataError as error:
        raise DataError(
            f"{folder.path}: does not keep its class names, as it is of an older version, and its"
            f" data set cannot be used: {error}"
        ) from error
    if prepared.data_version != version:
        raise DataError(
            f"{prepared.folder}: has version {prepared.data_version}, but {folder.path} was trained"
            f" on {version}; prepare that data set again"
        )
    return prepared.class_names, prepared.normalization


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
    config, classes, output = trained.config, len(trained.class_names), output.resolve()
    _recover(output)
    if output.exists() and not _is_export(output):
        raise DataError(f"{output}: exists and is no export; choose another --output")
    scratch = output.with_name(f".{output.name}.partial")
    # Also what a process left behind that was killed.
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        model = load_model(config, classes, "float32", trained.tensors, trained.origin)
        save_model(
            model,
            scratch / SAVED_MODEL,
            trained.class_names,
            trained.normalization,
            config.model.image_size,
            config.data.eval_crop,
            top,
        )
        if extra:
            extra(scratch)
        text = json.dumps(trained.facts(top), indent=1, ensure_ascii=False)
        (scratch / FACTS).write_text(text + "\n", encoding="utf-8")
        _replace(scratch, output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_export(folder: Path) -> bool:
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / FACTS).is_file())


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
