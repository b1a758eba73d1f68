"""The export of a run: a folder with a SavedModel that needs none of our code, and its facts.

RUN/export/ has `saved_model/`, `export.json` and, if asked for, `model.onnx`. It is written beside
its place and renamed, so it is complete or absent.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from trainer import __version__
from trainer.checkpoints.format import Tensors
from trainer.checkpoints.snapshot import snapshot
from trainer.data.data_set import load_data_set
from trainer.errors import DataError
from trainer.export.layout import FACTS, FOLDER, ONNX, SAVED_MODEL
from trainer.export.saved_model import save_model
from trainer.model.weights import load_model, variables_by_name
from trainer.run_folder import RunFolder, RunRecord, Which

SCHEMA = 1
TOP = 5
"""Classes that serving_default gives, unless told otherwise."""


@dataclass(frozen=True)
class TrainedWeights:
    """The weights of a step of a run, and all that an export needs beside them."""

    record: RunRecord
    """Of the run, with its class names and normalization."""
    step: int
    evaluation: Mapping[str, Any] | None
    """Of these very weights on the validation split, if there was one."""
    tensors: Tensors
    """A checkpoint's, by name."""
    origin: Path
    """Where they come from, for errors."""


def export_run(run: str, which: Which, output: str | None, top: int, *, onnx: bool) -> Path:
    """`python -m trainer export`: export a checkpoint and print where it is.

    Args:
        run: folder of the run.
        which: the checkpoint.
        output: folder to write; None is `export` in the run's.
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
    run_folder = RunFolder(Path(run))
    record = run_folder.read()
    checkpoint = run_folder.find_checkpoint(which)
    weights = TrainedWeights(
        _with_class_names(record, run_folder.path),
        checkpoint.step,
        checkpoint.meta["evaluation"],
        checkpoint.load(),
        checkpoint.path,
    )
    notes = []

    def add_onnx(folder: Path) -> None:
        from trainer.export.onnx import write_onnx  # noqa: PLC0415 its packages are in no image

        difference = write_onnx(folder / SAVED_MODEL, folder / ONNX)
        notes.append(f"; {ONNX} differs by at most {difference:.2g} in a probability")

    folder = Path(output) if output else run_folder.path / FOLDER
    try:
        write_export(weights, folder, top, add_onnx if onnx else None)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"{folder}: the export cannot be written: {error}") from error
    print(f"{folder}: SavedModel of {checkpoint.path}{''.join(notes)}")
    return folder


def _with_class_names(record: RunRecord, run: Path) -> RunRecord:
    """A run's record with class names and normalization; of an older run, from its data set."""
    if record.class_names is not None:
        return record
    try:
        data_set = load_data_set(record.config)
    except DataError as error:
        raise DataError(
            f"{run}: does not keep its class names, as it is of an older version, and its data set"
            f" cannot be used: {error}"
        ) from error
    data_set.check_version(record.data_version, run)
    return replace(record, class_names=data_set.class_names, normalization=data_set.normalization)


def export_model(
    run: RunFolder,
    record: RunRecord,
    model: keras.Model,
    step: int,
    evaluation: Mapping[str, Any] | None,
) -> Path:
    """Export the model of a run that is complete, at its end; the model is only read.

    Args:
        run: its folder.
        record: of the run.
        model: with the final weights.
        step: steps done.
        evaluation: of these very weights, if there was one.

    Returns:
        The folder of the export.

    Raises:
        UserError: it cannot be written; the run itself is complete.
    """
    tensors = snapshot(variables_by_name(model))
    weights = TrainedWeights(record, step, evaluation, tensors, run.path)
    try:
        write_export(weights, run.path / FOLDER)
    except (OSError, UserError, tf.errors.OpError) as error:
        raise UserError(
            f"{run.path}: the run is complete and its result.json written, but it could not be"
            f" exported: {error}\nto try again: python -m trainer export --run {run.path}"
        ) from error
    return run.path / FOLDER


def exported_step(run: Path) -> int | None:
    """The step whose weights a run's export has, if there is a complete one."""
    try:
        return int(json.loads((run / FOLDER / FACTS).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_export(
    weights: TrainedWeights,
    output: Path,
    top: int = TOP,
    extra: Callable[[Path], None] | None = None,
) -> None:
    """Write an export; one that is there stays until the new one is complete.

    Args:
        weights: what to export.
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
        _save_model(weights, scratch / SAVED_MODEL, top)
        if extra:
            extra(scratch)
        text = json.dumps(_facts(weights, top), indent=1, ensure_ascii=False)
        (scratch / FACTS).write_text(text + "\n", encoding="utf-8")
        _replace(scratch, output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _save_model(weights: TrainedWeights, folder: Path, top: int) -> None:
    record = weights.record
    assert record.class_names is not None
    assert record.normalization is not None
    config, classes = record.config, len(record.class_names)
    model = load_model(config, classes, "float32", weights.tensors, weights.origin)
    size, crop = config.model.image_size, config.data.eval_crop
    save_model(model, folder, record.class_names, record.normalization, size, crop, top)


def _facts(weights: TrainedWeights, top: int) -> dict[str, Any]:
    """What export.json says."""
    record, model = weights.record, weights.record.config.model
    assert record.class_names is not None
    assert record.normalization is not None
    return {
        "schema": SCHEMA,
        "run": record.config.name,
        "step": weights.step,
        "data_version": record.data_version,
        "class_names": list(record.class_names),
        "top": min(top, len(record.class_names)),
        "image_size": model.image_size,
        "eval_crop": record.config.data.eval_crop,
        "mean": list(record.normalization.mean),
        "deviation": list(record.normalization.std),
        "model": {"depth": model.depth, "width": model.width, "stem": model.stem},
        "evaluation": weights.evaluation,
        "code_version": __version__,
    }


def _is_export(folder: Path) -> bool:
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / FACTS).is_file())


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _recover(folder: Path) -> None:
    """Put back what an attempt had set aside that was killed between its two renames."""
    if not folder.exists() and _aside(folder).exists():
        _aside(folder).rename(folder)


def _replace(new: Path, folder: Path) -> None:
    """Put a folder in place of another; a folder that is not empty cannot be renamed over."""
    old = _aside(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
