"""The trial of an own network: an evaluation and a training step of three images, compiled as in a
run, so that what would fail in the first evaluation, or change when a run is resumed, shows before
the first step.
"""

import random
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from trainer.checkpoints.snapshot import stored_name
from trainer.model.randomness import operations, randomness, stateful_draws

_HIDDEN = {
    "Timestamp": "reads the clock, which a resumed run could not repeat; leave it out",
    "PyFunc": "calls Python from the graph",
    "EagerPyFunc": "calls Python from the graph",
    "PyFuncStateless": "calls Python from the graph",
}
"""Faults of kinds of operations."""
_NOT_THEIRS = {"tensorflow", "tf_keras", "importlib"}
"""Folders of code that is not the builder's."""
_NO_PYTHON = ", which an exported model could not; use operations of TensorFlow"

_ENDS = {
    "Softmax": ("a softmax", "add up to 1"),
    "Sigmoid": ("a sigmoid", "lie between 0 and 1"),
    "Tanh": ("a tanh", "lie between -1 and 1, and so no probability can be near 1"),
    "Softsign": ("a softsign", "lie between -1 and 1, and so no probability can be near 1"),
}
"""Operations that bound the logits: name, and bound of the outputs."""
_PASSING = {"Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient", "Transpose"}
"""Operations that leave the values of their first input as they are."""
_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}

Images = Callable[[tf.Tensor], Any]


def attempt(name: str, what: str, function: Callable[[], Any], remedy: str = "") -> Any:
    """Call a function.

    Args:
        name: The builder, for errors.
        what: The fault if the function raises an error.
        function: The function.
        remedy: What to do then, unless the error itself has a known remedy.

    Raises:
        ConfigError: It raised an error; has its text, the line, and what to do if that is known.
    """
    try:
        return function()
    except Exception as error:
        raise refusal(name, f"{what}: {_told(error)}{_remedy(error) or remedy}") from error


def refusal(name: str, problem: str) -> ConfigError:
    """Return the error of a builder."""
    return ConfigError([f"--model.builder: {name}: {problem}"])


def _told(error: Exception) -> str:
    """Describe an error of someone else's code, with their line that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [
        frame
        for frame in frames
        if not set(Path(frame.filename).parts) & _NOT_THEIRS
        and "trainer/model/" not in frame.filename
    ]
    line = (theirs or frames)[-1]
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    if isinstance(error, tf.errors.OperatorNotAllowedInGraphError):
        # The first line names the layer; then come advice that does not fit, and its arguments.
        lines = lines[:1]
    elif isinstance(error, tf.errors.OpError):
        lines = lines[:3]
    return f"{type(error).__name__}: {' '.join(lines)} ({line.filename}, line {line.lineno})"


def _remedy(error: Exception) -> str:
    if isinstance(error, tf.errors.OperatorNotAllowedInGraphError):
        return (
            "; Python's `if` and `while` over tensors are not converted (AutoGraph is off): use"
            " tf.where, tf.cond or tf.while_loop, or decorate the `call` of your layer with"
            " @tf.function, which converts them in it"
        )
    if "Fusion is not implemented" in str(error):
        return (
            "; TensorFlow lacks this combination of a convolution, a batch norm and an activation"
            " on a CPU with oneDNN: give the batch norm fused=False, or the convolution"
            " use_bias=True, also for the exported model"
        )
    return ""


def trial_problem(name: str, model: keras.Model, size: int) -> str | None:
    """Take a training step and evaluate three images, compiled; the variables keep their values.

    Args:
        name: The builder, for errors.
        model: Network that uses keys for its random numbers.
        size: Height and width of the images, in pixels.

    Returns:
        The fault of the network; None if it can be trained, and a run with it resumed.

    Raises:
        ConfigError: The network fails.
    """
    step, failed = _TrainingStep(model), "cannot be trained"
    # An evaluation must draw nothing.
    evaluation = _compiled(lambda images: model(images, training=False), size)
    with _restored(model):
        # A Sequential without an input shape calls its layers once more, and so draws more numbers,
        # when it first gets a batch of any size.
        evaluated = attempt(name, "cannot be evaluated", evaluation.get_concrete_function)
        graph, again = (
            attempt(name, failed, partial(_traced, step, size, seed)).graph for seed in (0, 1)
        )
        problem = (
            _loss_problem(step)
            or _operations_problem(graph)
            or _untracked_problem(model, graph)
            or _constants_problem(graph, again)
            or _weights_problem(step)
            or _end_problem(evaluated)
        )
        if problem is None:
            # Another number than the two with which the network was built.
            images = tf.random.stateless_normal([3, size, size, 3], [0, 0])
            before = [variable.numpy() for variable in model.variables]
            logits = attempt(name, "cannot be evaluated", lambda: evaluation(images))
            problem = _evaluation_problem(model, before) or _logits_problem(logits)
            attempt(name, failed, lambda: _compiled(step, size)(images))
            problem = problem or _whole_numbers_problem(model, before)
    return problem


def is_whole(variable: tf.Variable) -> bool:
    """Return whether the values of a variable are whole numbers, or true or false."""
    return bool(variable.dtype.is_integer or variable.dtype.is_bool)


class _TrainingStep:
    """A forward and a backward pass, and observations of its last trace."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self.losses: list[Any] = []
        self.unused: list[str] = []

    def __call__(self, images: tf.Tensor) -> list[tf.Tensor]:
        weights = self._model.trainable_variables
        with tf.GradientTape() as tape, randomness(self._model, 0, tf.constant(0), 0, 0):
            logits = self._model(images, training=True)
        self.losses = list(self._model.losses)
        gradients = tape.gradient(logits, weights)
        pairs = zip(weights, gradients, strict=True)
        self.unused = [stored_name(weight) for weight, gradient in pairs if gradient is None]
        return [tf.convert_to_tensor(part) for part in gradients if part is not None]


def _compiled(function: Images, size: int) -> Any:
    signature = [tf.TensorSpec([None, size, size, 3])]
    return tf.function(function, signature, autograph=False)


def _traced(function: Images, size: int, seed: int) -> Any:
    random.seed(seed)
    np.random.seed(seed)
    return _compiled(function, size).get_concrete_function()


@contextmanager
def _restored(model: keras.Model) -> Iterator[None]:
    """Give the variables, and the generators of Python and NumPy, their values back in the end."""
    values = [variable.numpy() for variable in model.variables]
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for variable, value in zip(model.variables, values, strict=True):
            variable.assign(value)


def _weights_problem(step: _TrainingStep) -> str | None:
    if step.unused:
        return (
            f"{step.unused[0]} has no effect on the logits; remove its layer, or set the layer's"
            " trainable to False"
        )
    return None


def _loss_problem(step: _TrainingStep) -> str | None:
    if step.losses:
        return (
            "layers add losses in training, with add_loss or an activity_regularizer, which would"
            " have no effect; remove them"
        )
    return None


def _evaluation_problem(model: keras.Model, before: list[Any]) -> str | None:
    for variable, value in zip(model.variables, before, strict=True):
        if not np.array_equal(variable.numpy(), value):
            return (
                f"an evaluation changes the variable {stored_name(variable)}, so that a run that is"
                " resumed, or evaluated at other times, would differ; change it only with"
                " training=True"
            )
    return None


def _whole_numbers_problem(model: keras.Model, before: list[Any]) -> str | None:
    for variable, value in zip(model.variables, before, strict=True):
        if is_whole(variable) and not np.array_equal(variable.numpy(), value):
            return (
                f"a training step changes the variable {stored_name(variable)}, which is"
                f" {variable.dtype.name}, so ranks would not agree on it: they exchange the mean of"
                " their values; make it float32, or do not change it"
            )
    return None


def _logits_problem(logits: tf.Tensor) -> str | None:
    outputs = logits.numpy()
    if outputs.shape[-1] > 1 and outputs.min() >= 0 and np.allclose(outputs.sum(-1), 1, atol=1e-4):
        return (
            "the outputs of each image are probabilities that add up to 1; leave out the softmax,"
            " because the loss and the exported model apply it to the logits"
        )
    return None


def _end_problem(evaluated: Any) -> str | None:
    if (last := _last_operation(evaluated)) not in _ENDS:
        return None
    kind, bound = _ENDS[last]
    return (
        f"the outputs are those of {kind}, which {bound}; leave it out, because the loss and the"
        " exported model turn logits of any value into probabilities"
    )


def _last_operation(evaluated: Any) -> str:
    """Return the kind of the operation that computes the output of a concrete function, or of the
    function that it calls last; empty if that only passes an argument on.
    """
    graph, output = evaluated.graph.as_graph_def(), evaluated.outputs[0].name
    functions = {function.signature.name: function for function in graph.library.function}
    nodes = {node.name: node for node in graph.node}
    while node := nodes.get(output.split(":")[0]):
        if node.op in _CALLS:
            called, number = functions[node.attr["f"].func.name], output.rpartition(":")[2]
            place = int(number) if number.isdecimal() else 0
            nodes = {inner.name: inner for inner in called.node_def}
            output = called.ret[called.signature.output_arg[place].name]
        elif node.op in _PASSING:
            output = node.input[0]
        else:
            return str(node.op)
    return ""


def _operations_problem(graph: tf.Graph) -> str | None:
    draws = stateful_draws(graph)
    if draws:
        return (
            f"{draws[0]} draws random numbers that a resumed run could not repeat; use layers of"
            " tf_keras, such as Dropout or GaussianNoise, which draw by the number of the step"
        )
    for node in operations(graph):
        if node.op in _HIDDEN:
            return f"{node.name} {_HIDDEN[node.op]}{_NO_PYTHON * ('Python' in _HIDDEN[node.op])}"
    return None


def _untracked_problem(model: keras.Model, graph: Any) -> str | None:
    known = {id(variable.handle) for variable in model.variables}
    for variable in graph.variables:
        if id(variable.handle) not in known:
            return (
                f"the variable {stored_name(variable)} belongs to no layer, so a checkpoint would"
                " not hold it; make it an attribute of a layer, or use the layer's add_weight"
            )
    return None


def _constants_problem(graph: tf.Graph, again: tf.Graph) -> str | None:
    """Compare the constants of two traces with other states of Python's and NumPy's generators."""
    names, others = _constants(graph), _constants(again)
    name = next((name for key, name in names.items() if key not in others), None)
    if name is not None:
        return (
            f"{name} is a different constant each time that the network is traced, such as from"
            " numpy.random, random or time; each rank and each attempt of a run would have its own:"
            " make it in the builder, or use layers of tf_keras that draw, such as GaussianNoise"
        )
    return None


def _constants(graph: tf.Graph) -> dict[tuple[str, bytes], str]:
    """Return the names of constants by value and by their name without numbers, as Keras counts
    some constants over all traces of a process.
    """
    return {
        (re.sub(r"\d+", "", node.name), node.attr["value"].SerializeToString()): str(node.name)
        for node in operations(graph)
        if node.op == "Const"
    }
