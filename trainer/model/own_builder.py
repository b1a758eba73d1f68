"""Your own network: `--model.builder package.module:function`, and its checks.

The function has the signature `build(image_size: int, outputs: int) -> tf_keras.Model`.
"""

import importlib
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from trainer.checkpoints.snapshot import stored_name
from trainer.config import ModelConfig
from trainer.model.randomness import randomness, stateful_draws, use_keys
from trainer.model.reproducible import reproducible


def build_own(
    config: ModelConfig, outputs: int, logits_shape: list[int], precision: str, seed: int = 0
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

    Raises:
        ConfigError: The builder cannot be imported, fails, or returns a network that cannot be
            trained; says what to do.
    """
    name = str(config.builder)
    function = _load(name)
    size = config.image_size
    with reproducible(precision, seed):
        model = _attempt(name, "failed", lambda: function(image_size=size, outputs=outputs))
        if not isinstance(model, keras.Model):
            raise _refusal(
                name,
                f"returned {type(model).__module__}.{type(model).__qualname__}; return a"
                " tf_keras.Model (import tf_keras, not keras)",
            )
        images = tf.zeros([2, size, size, 3])
        what = f"returned a model that does not accept images [b, {size}, {size}, 3]"
        # A model without declared inputs makes its variables here.
        logits = _attempt(name, what, lambda: model(images, training=False))
    problem = _output_problem(logits, logits_shape) or _variables_problem(model)
    if problem is not None:
        raise _refusal(name, problem)
    use_keys(model)
    problem = _training_problem(name, model, size)
    if problem is not None:
        raise _refusal(name, problem)
    return model


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), function, None)
    except Exception as error:
        raise _refusal(
            name,
            f"{module} cannot be imported: {_told(error)}; start the training in the folder that"
            " contains it, and check that the module itself runs",
        ) from error
    if not callable(found):
        raise _refusal(name, f"{module} has no function {function}; define it there")
    called: Callable[..., Any] = found
    return called


def _attempt(name: str, what: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        raise _refusal(name, f"{what}: {_told(error)}") from error


def _told(error: Exception) -> str:
    """Describe an error of someone else's code, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def _refusal(name: str, problem: str) -> ConfigError:
    return ConfigError([f"--model.builder: {name}: {problem}"])


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


def _variables_problem(model: keras.Model) -> str | None:
    for variable in model.variables:
        if variable.dtype != tf.float32:
            return (
                f"{stored_name(variable)} is {variable.dtype.name}; all variables must be float32,"
                " also in mixed precision: give the layer dtype='float32', or leave out its dtype"
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


def _training_problem(name: str, model: keras.Model, size: int) -> str | None:
    """Trace a training step and an evaluation, and return what is wrong with them."""
    weights = model.trainable_variables
    unused: list[str] = []

    def step(images: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape, randomness(model, 0, tf.constant(0), 0, 0):
            logits = model(images, training=True)
        # An evaluation must draw nothing.
        model(images, training=False)
        pairs = zip(weights, tape.gradient(logits, weights), strict=True)
        unused.extend(stored_name(weight) for weight, gradient in pairs if gradient is None)
        return logits

    traced = tf.function(step, [tf.TensorSpec([None, size, size, 3])], autograph=False)
    graph = _attempt(name, "cannot be trained", traced.get_concrete_function).graph
    draws = stateful_draws(graph)
    if draws:
        return (
            f"{draws[0]} draws random numbers that a resumed run could not repeat; use layers of"
            " tf_keras, such as Dropout or GaussianNoise, which draw by the number of the step"
        )
    if unused:
        return (
            f"{unused[0]} has no effect on the logits; remove its layer, or set the layer's"
            " trainable to False"
        )
    return None
