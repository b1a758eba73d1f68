"""Loading of a run's weights into a model for prediction."""

from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.format import Tensors
from trainer.checkpoints.snapshot import restore, stored_name
from trainer.config import TrainConfig
from trainer.model.build import build_model
from trainer.own_code.code import CodeChoice


def load_model(
    config: TrainConfig,
    classes: int,
    precision: str,
    tensors: Tensors,
    origin: Path,
    code: CodeChoice | None = None,
) -> keras.Model:
    """Build the network of a run and load the weights of a checkpoint.

    Args:
        config: Configuration of the run.
        classes: Number of outputs.
        precision: as in `ComputeConfig`; may differ from that of the training, because the
            weights are float32 in both.
        tensors: Tensors of a checkpoint; those that do not belong to the model are ignored.
        origin: Path that the tensors come from, for errors.
        code: Code of an own network; None takes it as it is loaded already.

    Raises:
        CheckpointError: The tensors belong to another model, or the code builds another one.
    """
    if code is not None:
        code.use()
    model = build_model(config.model, classes, precision, config.seed, config.task, trial=False)
    if code is not None:
        code.check_graph(getattr(model, "graph_digest", None), origin)
    weights = {name: value for name, value in tensors.items() if name.startswith("model/")}
    restore(variables_by_name(model), weights, origin)
    return model


def variables_by_name(model: keras.Model) -> dict[str, tf.Variable]:
    """Return the variables of a model by their names in a checkpoint."""
    return {f"model/{stored_name(variable)}": variable for variable in model.variables}
