"""`python -m trainer export`: a checkpoint of a run as a model to be used elsewhere."""

from pathlib import Path

import tensorflow as tf

from common.errors import UserError
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import DataError
from trainer.export.layout import FOLDER, ONNX, SAVED_MODEL
from trainer.export.onnx import write_onnx
from trainer.export.saved_model import Trained, write_export
from trainer.model.trained import Which, find_checkpoint
from trainer.run_folder import RunFolder
from trainer.training.setup import prepare


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
