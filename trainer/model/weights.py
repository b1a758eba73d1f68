"""A run's weights as a model that only predicts."""

from pathlib import Path
from typing import Literal

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.format import Checkpoint
from trainer.checkpoints.snapshot import restore
from trainer.checkpoints.tensors import Tensors
from trainer.config import TrainConfig
from trainer.errors import CheckpointError
from trainer.model.resnet import build_resnet
from trainer.run_folder import RunFolder

Which = Literal["last", "best"]
"""last: the newest valid checkpoint; best: the one with the best top-1 among those kept."""


def find_checkpoint(folder: RunFolder, which: Which) -> Checkpoint:
    """The checkpoint of a run that is asked for.

    Raises:
        CheckpointError: there is no valid one, or for `best` none that was evaluated.
    """
    checkpoints = folder.checkpoints
    found = checkpoints.best() if which == "best" else checkpoints.newest()
    if found is None:
        kind = "valid checkpoint that was evaluated" if which == "best" else "valid checkpoint"
        raise CheckpointError(f"{folder.path}: has no {kind}; train on, or choose another run")
    return found


def load_model(
    config: TrainConfig, classes: int, precision: str, tensors: Tensors, origin: Path
) -> keras.Model:
    """Build the network of a run and give it a checkpoint's weights.

    Args:
        config: the run's.
        classes: outputs.
        precision: float32 or mixed_float16; need not be that of the training, as the weights are
            float32 in both.
        tensors: a checkpoint's; what is not of the model is left out.
        origin: where they come from, for errors.

    Raises:
        CheckpointError: they are of another model.
    """
    model = build_resnet(config.model, classes, precision, config.seed)
    weights = {name: value for name, value in tensors.items() if name.startswith("model/")}
    restore(variables_by_name(model), weights, origin)
    return model


def variables_by_name(model: keras.Model) -> dict[str, tf.Variable]:
    """The variables of a model by their names in a checkpoint."""
    return {f"model/{v.name.removesuffix(':0')}": v for v in model.variables}
