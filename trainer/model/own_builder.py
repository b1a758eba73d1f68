"""Your own network: `--model.builder package.module:function`, and its checks.

The function has the signature `build(image_size: int, outputs: int) -> tf_keras.Model`.
"""

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.snapshot import stored_name
from trainer.config import ModelConfig
from trainer.model.layers import all_layers
from trainer.model.own_graph import graph_digest
from trainer.model.own_trial import attempt, is_whole, refusal, trial_problem
from trainer.model.randomness import use_keys
from trainer.model.reproducible import reproducible


def build_own(
    config: ModelConfig,
    outputs: int,
    logits_shape: list[int],
    precision: str,
    seed: int = 0,
    *,
    trial: bool = True,
) -> keras.Model:
    """Call the builder of a configuration, and check its network.

    Layers without a dtype get the run's, and layers without a seed get initial weights that follow
    from the run's seed.

    Args:
        config: Builder and image size.
        outputs: Number of outputs.
        logits_shape: Shape of the logits of an image.
        precision: Dtype policy, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.
        trial: Whether to take a training step and evaluate three images, as for a run that begins.

    Returns:
        The network, with its `graph_digest` as an attribute of that name.

    Raises:
        ConfigError: The builder cannot be imported, fails, or returns a network that cannot be
            trained; says what to do.
    """
    name = str(config.builder)
    function = _load(name)
    size = config.image_size
    with reproducible(precision, seed):
        model = attempt(name, "failed", lambda: function(image_size=size, outputs=outputs))
        if not isinstance(model, keras.Model):
            raise refusal(
                name,
                f"returned {type(model).__module__}.{type(model).__qualname__}; return a"
                " tf_keras.Model (import tf_keras, not keras)",
            )
        images = tf.zeros([2, size, size, 3])
        what = f"returned a model that does not accept images [b, {size}, {size}, 3]"
        # A model without declared inputs makes its variables here.
        logits = attempt(name, what, lambda: model(images, training=False))
    _name_apart(model)
    problem = _output_problem(logits, logits_shape) or _variables_problem(model)
    if problem is not None:
        raise refusal(name, problem)
    use_keys(model)
    model.graph_digest = graph_digest(model)
    problem = trial_problem(name, model, size) if trial else None
    if problem is not None:
        raise refusal(name, problem)
    return model


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    remedy = (
        "; start the training in the folder that contains it, and check that the module itself runs"
    )
    imported = attempt(
        name, f"{module} cannot be imported", lambda: importlib.import_module(module), remedy
    )
    builder: Any = getattr(imported, function, None)
    if not callable(builder):
        raise refusal(name, f"{module} has no function {function}; define it there")
    called: Callable[..., Any] = builder
    return called


def _output_problem(logits: Any, wanted: list[int]) -> str | None:
    if not isinstance(logits, tf.Tensor):
        return f"the model returns a {type(logits).__name__}; return one tensor of logits"
    if logits.shape[1:] != wanted:
        shape, here = (", ".join(map(str, sizes)) for sizes in (logits.shape[1:], wanted))
        last = "a dense layer of `outputs` units" if len(wanted) == 1 else "a 1x1 convolution"
        return f"the model returns [b, {shape}]; end it with {last}, here [b, {here}]"
    if logits.dtype != tf.float32:
        return f"the logits are {logits.dtype.name}; give the last layer dtype='float32'"
    return None


def _name_apart(model: keras.Model) -> None:
    """Put the name of the layer before variables of equal names: those that a layer makes in its
    `__init__` have no name but their own.
    """
    names = Counter(stored_name(variable) for variable in model.variables)
    # A layer comes before those inside of it, which are closer to their variables.
    for layer in reversed([*all_layers(model)]):
        for variable in layer.variables:
            name = stored_name(variable)
            if names[name] > 1 and "/" not in name:
                # Keras has no setter. In mixed precision, the variable is in a wrapper.
                inner = getattr(variable, "_variable", variable)
                inner._handle_name = f"{layer.name}/{name}:0"  # noqa: SLF001


def _float32_remedy(model: keras.Model, variable: tf.Variable) -> str:
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.Normalization) and any(
            variable is own for own in layer.variables
        ):
            return (
                f"leave {layer.name} out, as images arrive normalised, or use a Rescaling, which"
                " has no variables"
            )
    return "give the layer dtype='float32', or leave out its dtype"


def _variables_problem(model: keras.Model) -> str | None:
    trained = {id(variable) for variable in model.trainable_variables}
    for variable in model.variables:
        # A checkpoint holds whole numbers as well; they must only stay as they are.
        unchanged = is_whole(variable) and id(variable) not in trained
        if variable.dtype != tf.float32 and not unchanged:
            return (
                f"{stored_name(variable)} is {variable.dtype.name}; all variables must be float32,"
                f" also in mixed precision: {_float32_remedy(model, variable)}"
            )
    names = Counter(stored_name(variable) for variable in model.variables)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        return (
            f"several variables are called {twice[0]}; a checkpoint needs different names, so give"
            " their layers names"
        )
    if not model.trainable_variables:
        return "the model has no trainable variable; add a layer that learns"
    if model.losses:
        return (
            "layers add losses, such as a kernel_regularizer, which would have no effect; remove"
            " them and use --optimizer.weight-decay"
        )
    return None
