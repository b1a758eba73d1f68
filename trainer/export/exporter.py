"""The export of a run: a folder with a SavedModel that needs none of our code, and its metadata.

RUN/export/ contains `saved_model/`, `export.json` and the files that the exporters of leaves add on
request. It is written under another name and renamed, so it is complete or absent.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from common.files import parse_json, writing
from common.program import load
from trainer import __version__
from trainer.checkpoints.format import Array, Tensors
from trainer.checkpoints.snapshot import snapshot
from trainer.data.data_set import load_data_set
from trainer.errors import DataError
from trainer.export.exported import Exported
from trainer.export.layout import FACTS, FOLDER, SAVED_MODEL
from trainer.export.options import EXPORTERS, SavedModelOptions
from trainer.export.saved_model import save_model
from trainer.leaves import tell_rewritten
from trainer.model.description import facts as network_facts
from trainer.model.weights import load_model
from trainer.own_code.code import CodeChoice, code_of_checkpoint
from trainer.run_folder import RunFolder, RunRecord
from trainer.tasks.task import Serving, make_task

SCHEMA = 1
TOP = 5
"""Default number of classes that serving_default returns."""


@dataclass(frozen=True)
class TrainedWeights:
    """The weights of a run at a step, and everything else that an export needs."""

    record: RunRecord
    """Record of the run, with class names and normalization."""
    step: int
    evaluation: Mapping[str, Any] | None
    """Evaluation of these weights on the validation split, if there was one."""
    tensors: Tensors
    """Tensors of a checkpoint, by name."""
    origin: Path
    """Path that the tensors come from, for errors."""
    run: Path
    """Folder of the run."""
    code: CodeChoice | None = None
    """Code of an own network; None takes it as it is loaded already."""


def export_run(options: SavedModelOptions) -> Path:
    """`ml-trainer export`: export a checkpoint and print the folder of the export.

    Args:
        options: What to export; an `ExportOptions` also says in which other formats.

    Returns:
        The folder of the export.

    Raises:
        CheckpointError: The folder is not a run folder, has no valid checkpoint, or does not have
            the code of its own network.
        DataError: The output folder contains something else; or an older version wrote the run
            without its class names, and the data set is missing.
        UserError: The model in another format differs from the SavedModel.
    """
    # An export needs little computation, and the GPUs may be in use by a run.
    tf.config.set_visible_devices([], "GPU")
    run_folder = RunFolder(Path(options.run))
    record = run_folder.read()
    checkpoint = run_folder.find_checkpoint(options.checkpoint)
    weights = TrainedWeights(
        _with_class_names(record, run_folder.path),
        checkpoint.step,
        checkpoint.meta["evaluation"],
        checkpoint.load(),
        checkpoint.path,
        run_folder.path,
        code_of_checkpoint(
            record.config.model.builder,
            run_folder.path,
            checkpoint.meta,
            accept=options.accept_changed_code,
        ),
    )
    notes: list[str] = []

    def add(folder: Path, model: keras.Model, serving: Serving) -> None:
        exported = Exported(folder, run_folder.path, weights.record, model, serving, options)
        notes.extend(
            f"; {load(exporter.write)(exported)}"
            for exporter in EXPORTERS
            if exporter.options
            and any(
                getattr(options, option.name, option.default) != option.default
                for option in fields(exporter.options)
            )
        )

    folder = Path(options.output) if options.output else run_folder.path / FOLDER
    try:
        write_export(weights, folder, options.top, add)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"{folder}: the export cannot be written: {error}") from error
    print(f"{folder}: SavedModel of {checkpoint.path}{''.join(notes)}")
    tell_rewritten(run_folder.path)
    return folder


def _with_class_names(record: RunRecord, run: Path) -> RunRecord:
    """Return a run's record with class names and normalization; for an older run, read them from
    its data set.
    """
    if record.class_names is not None:
        return record
    try:
        data_set = load_data_set(record.config)
    except DataError as error:
        raise DataError(
            f"{run}: was written by an older version, without class names, and its data set cannot"
            f" be used: {error}"
        ) from error
    data_set.check_version(record.data_version, run)
    return replace(record, class_names=data_set.class_names, normalization=data_set.normalization)


def export_model(
    run: RunFolder,
    record: RunRecord,
    weights: Mapping[str, tf.Variable | Array],
    step: int,
    evaluation: Mapping[str, Any] | None,
) -> Path:
    """Export the model at the end of a complete run. The weights are not changed.

    Args:
        run: Folder of the run.
        record: Record of the run.
        weights: Final weights by their names in a checkpoint; others are ignored.
        step: Steps done.
        evaluation: Evaluation of these weights, if there was one.

    Returns:
        The folder of the export.

    Raises:
        UserError: The export cannot be written; the run itself is complete.
    """
    trained = TrainedWeights(record, step, evaluation, snapshot(weights), run.path, run.path)
    try:
        write_export(trained, run.path / FOLDER)
    except (OSError, UserError, tf.errors.OpError) as error:
        raise UserError(
            f"{run.path}: the run is complete and its result.json is written, but its model could"
            f" not be exported: {error}\nto try again, run: ml-trainer export --run"
            f" {run.path}"
        ) from error
    return run.path / FOLDER


def exported_step(run: Path) -> int | None:
    """Return the step whose weights a run's export contains; None without a complete export."""
    try:
        return int(parse_json((run / FOLDER / FACTS).read_text(encoding="utf-8"))["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_export(
    weights: TrainedWeights,
    output: Path,
    top: int = TOP,
    extra: Callable[[Path, keras.Model, Serving], None] | None = None,
) -> None:
    """Write an export; an existing one is kept until the new one is complete.

    Args:
        weights: Weights to export.
        output: Folder of the export.
        top: Number of classes that serving_default returns; at most all of them.
        extra: Function that adds files to the new folder, given it and the parts of its SavedModel;
        if it raises, nothing is kept.

    Raises:
        DataError: The folder contains something else.
        OSError: The export cannot be written.
    """
    output = output.resolve()
    _recover(output)
    if output.exists() and not _is_export(output):
        raise DataError(f"{output}: exists but is not an export; choose another --output")
    scratch = output.with_name(f".{output.name}.partial")
    # Also removes the files of a killed process.
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with writing(output):
            scratch.mkdir(parents=True)
        model, serving, same, more = _save_model(weights, scratch / SAVED_MODEL, top)
        if extra:
            extra(scratch, model, serving)
        text = json.dumps({**_facts(weights, top, same=same), **more}, indent=1, ensure_ascii=False)
        (scratch / FACTS).write_text(text + "\n", encoding="utf-8")
        _replace(scratch, output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _save_model(
    weights: TrainedWeights, folder: Path, top: int
) -> tuple[keras.Model, Serving, bool, Mapping[str, Any]]:
    """Write the SavedModel; return its parts, whether its network is the one that was evaluated,
    and the facts that leaves add.
    """
    record = weights.record
    assert record.class_names is not None
    assert record.normalization is not None
    config, classes = record.config, len(record.class_names)
    code = weights.code
    model = load_model(config, classes, "float32", weights.tensors, weights.origin, code)
    serving = Serving(
        record.class_names,
        record.normalization,
        config.model.image_size,
        config.data.eval_crop,
        top,
    )
    same = code is None or code.is_of_run(getattr(model, "graph_digest", None))
    facts: dict[str, Any] = {}
    for exporter in EXPORTERS if same else ():
        changes = exporter.network and load(exporter.network)(weights.run, weights.step, model)
        if changes:
            model, more = changes
            facts |= more
    save_model(make_task(config, classes), model, folder, serving)
    return model, serving, same, facts


def _facts(weights: TrainedWeights, top: int, *, same: bool) -> dict[str, Any]:
    """Return the content of export.json.

    Args:
        weights: The exported weights.
        top: Number of classes that serving_default returns.
        same: Whether the exported network is the one that was evaluated.
    """
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
        **record.treatment,
        "task": record.config.task,
        "model": network_facts(model),
        # Nothing was measured on the network of other code.
        "evaluation": weights.evaluation if same else None,
        "evaluated_in": record.config.compute.precision if same and weights.evaluation else None,
        "changed_code": not same,
        "code_version": __version__,
    }


def _is_export(folder: Path) -> bool:
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / FACTS).is_file())


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _recover(folder: Path) -> None:
    """Restore the old export after an attempt that was killed between its two renames."""
    if not folder.exists() and _aside(folder).exists():
        _aside(folder).rename(folder)


def _replace(new: Path, folder: Path) -> None:
    """Replace a folder by another, with two renames: the target of one must be missing or empty."""
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
