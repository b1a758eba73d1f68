"""A run's weights as a model that only predicts."""

from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.format import Tensors
from trainer.checkpoints.snapshot import restore, stored_name
from trainer.config import TrainConfig
from trainer.model.resnet import build_resnet


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
    return {f"model/{stored_name(variable)}": variable for variable in model.variables}
