"""Loading of a run's weights into a model for prediction, and whether weights are finite."""

from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.format import Tensors, not_finite
from trainer.checkpoints.snapshot import restore, stored_name
from trainer.config import TrainConfig
from trainer.errors import NonFiniteError
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
        NonFiniteError: A weight is not finite; names it.
    """
    if code is not None:
        code.use()
    model = build_model(config.model, classes, precision, config.seed, config.task, trial=False)
    if code is not None:
        code.check_graph(getattr(model, "graph_digest", None), origin)
    weights = {name: value for name, value in tensors.items() if name.startswith("model/")}
    restore(variables_by_name(model), weights, origin)
    problem = not_finite(weights)
    if problem is not None:
        raise NonFiniteError(
            f"{origin}: {problem}, so the model would answer without a meaning; use an earlier"
            " --checkpoint, or train again with a lower --optimizer.learning-rate"
        )
    return model


def check_statistics(model: keras.Model, step: int) -> None:
    """Check the variables on which the loss of a step does not depend: those that are not trained,
    such as the moving statistics of batch norm, with which evaluations and exports compute.

    Raises:
        NonFiniteError: A value is not finite; names the variable.
    """
    variables = {
        stored_name(variable): variable
        for variable in model.non_trainable_variables
        if variable.dtype.is_floating
    }
    if not variables or bool(
        tf.reduce_all(
            [tf.reduce_all(tf.math.is_finite(variable)) for variable in variables.values()]
        )
    ):
        return
    problem = not_finite({name: variable.numpy() for name, variable in variables.items()})
    raise NonFiniteError(
        f"step {step}: {problem}, although the loss is: evaluations and the exported model would"
        " answer without a meaning. The checkpoints before are good; continue with a lower"
        " --optimizer.learning-rate or --compute.precision float32, and look for images with"
        " extreme values"
    )


def variables_by_name(model: keras.Model) -> dict[str, tf.Variable]:
    """Return the variables of a model by their names in a checkpoint."""
    return {f"model/{stored_name(variable)}": variable for variable in model.variables}
