"""Division of a network's layers over the devices of one rank, in the order in which they run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import zip_longest
from math import inf, prod
from typing import Any

import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from common.text import plural
from trainer.model.flops import forward_flops
from trainer.model.layers import all_layers


def partition(costs: Sequence[float], parts: int) -> list[int]:
    """Divide a sequence into contiguous parts of which the most costly one costs least.

    Args:
        costs: Cost of each item, at least 0.
        parts: Number of parts, at most the number of items; none is empty.

    Returns:
        The number of the part of each item, from 0.
    """
    count, before = len(costs), [0.0]
    for cost in costs:
        before.append(before[-1] + cost)
    # By number of items: the least possible cost of the most costly part, and the parts' begins.
    best: list[tuple[float, tuple[int, ...]]] = [(inf, ())] * (count + 1)
    best[0] = (0.0, ())
    for _ in range(parts):
        best = [
            min(
                (
                    (max(best[begin][0], before[end] - before[begin]), (*best[begin][1], begin))
                    for begin in range(end)
                ),
                default=(inf, ()),
            )
            for end in range(count + 1)
        ]
    begins = best[count][1]
    return [sum(begin <= item for begin in begins) - 1 for item in range(count)]


@dataclass(frozen=True)
class _Step:
    """A layer that runs on one device."""

    number: int
    """Its place in `all_layers`."""
    cost: float
    weighted: bool
    """Whether it holds variables."""


@dataclass(frozen=True)
class Placement:
    """The stage of each layer and of each variable of a network."""

    layers: dict[int, int]
    """Stage by the layer's place in `all_layers`; layers that only contain others have none."""
    variables: tuple[tuple[str, int], ...]
    """Name and stage of each variable that the build creates, in this order."""


def build_divided(
    build: Callable[[], keras.Model], devices: Sequence[str], image_size: int
) -> keras.Model:
    """Build a network whose layers are divided over devices.

    The network is built twice: in host memory, to learn its layers and their order, and then on the
    devices. Equal builds make equal networks, so names and initial weights are those of the
    undivided network.

    Args:
        build: Builds the network; equal calls build equal networks.
        devices: Device of each stage, at least two.
        image_size: Height and width of its images, in pixels.

    Returns:
        The network. The variables of each layer are on the device of its stage, and its operations
        run there. An operation outside of layers runs with the latest of its inputs, inside graphs.

    Raises:
        ConfigError: The network has fewer layers with weights than there are devices, or a second
            build differs from the first.
    """
    placement = _plan(build, len(devices), image_size)
    with _created_on(placement.variables, devices):
        model = build()
    for number, layer in enumerate(all_layers(model)):
        if number in placement.layers:
            device = devices[placement.layers[number]]
            layer.call = _within(partial(tf.device, device), layer.call)
    model.call = _within(partial(after_inputs, devices), model.call)
    return model


def _plan(build: Callable[[], keras.Model], stages: int, image_size: int) -> Placement:
    """Build the network in host memory, and decide where its layers and variables belong."""
    created: list[tf.Variable] = []

    def note(create: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        created.append(create(**arguments))
        return created[-1]

    with tf.device("CPU:0"), tf.variable_creator_scope(note):
        model = build()
    names = [str(variable.name) for variable in created]
    layers, steps = list(all_layers(model)), _steps(model, image_size)
    weighted = sum(step.weighted for step in steps)
    if weighted < stages:
        raise ConfigError(
            [
                f"--stages.count: {stages} stages, but the network has only"
                f" {plural(weighted, 'layer')} with weights; choose fewer stages"
            ]
        )
    stage = _stages(steps, stages)
    owner = {
        str(variable.name): stage[step.number]
        for step in steps
        for variable in _own_variables(layers[step.number])
    }
    return Placement(stage, tuple((name, owner.get(name, 0)) for name in names))


def _stages(steps: Sequence[_Step], stages: int) -> dict[int, int]:
    """Return the stage of each layer. A layer without weights stays with the one before it, because
    on a device of its own it would only move activations.
    """
    begins = [position for position, step in enumerate(steps) if step.weighted]
    begins[0] = 0
    ends = [*begins[1:], len(steps)]
    groups = [steps[begin:end] for begin, end in zip(begins, ends, strict=True)]
    numbers = partition([sum(step.cost for step in group) for group in groups], stages)
    return {
        step.number: number for group, number in zip(groups, numbers, strict=True) for step in group
    }


def _steps(model: keras.Model, image_size: int) -> list[_Step]:
    """Return the layers of a network in the order in which they first run, with their costs.

    The cost of a layer is that of its forward pass for one image: the operations of
    `forward_flops`, at least two for each of its weights, and one for each number of its output.
    """
    layers = list(all_layers(model))
    own = [_own_variables(layer) for layer in layers]
    outputs: dict[int, float] = {}

    def noted(number: int, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def noting(*args: Any, **arguments: Any) -> Any:
            # Before the call, because of layers inside of this one.
            outputs.setdefault(number, 0.0)
            result = call(*args, **arguments)
            outputs[number] += sum(map(_numbers, tf.nest.flatten(result)))
            return result

        return noting

    for number, layer in enumerate(layers):
        if own[number] or not _contains_layers(layer):
            layer.call = noted(number, layer.call)
    forward = tf.function(lambda images: model(images, training=False), autograph=False)
    forward.get_concrete_function(tf.TensorSpec([1, image_size, image_size, 3]))
    # A layer that only a training calls may be left over.
    order = [*outputs, *(n for n, has_own in enumerate(own) if has_own and n not in outputs)]
    return [
        _Step(
            number,
            max(
                forward_flops(layers[number]),
                2.0 * sum(prod(variable.shape) for variable in own[number]),
            )
            + outputs.get(number, 0.0),
            bool(own[number]),
        )
        for number in order
    ]


def _contains_layers(layer: keras.layers.Layer) -> bool:
    return next(all_layers(layer), None) is not None


def _own_variables(layer: keras.layers.Layer) -> list[tf.Variable]:
    """Return the variables of a layer that do not belong to a layer inside of it."""
    inner = {id(variable) for part in all_layers(layer) for variable in part.variables}
    return [variable for variable in layer.variables if id(variable) not in inner]


def _numbers(output: Any) -> float:
    """Return the numbers in a tensor for one image; 0 if its shape is unknown."""
    shape = tf.TensorShape(getattr(output, "shape", None))
    return float(prod(shape[1:])) if shape.rank and shape[1:].is_fully_defined() else 0.0


@contextmanager
def _created_on(variables: Sequence[tuple[str, int]], devices: Sequence[str]) -> Iterator[None]:
    """Create variables on the devices of their stages.

    Args:
        variables: Name and stage of each variable, in the order of their creation.
        devices: Device of each stage.

    Raises:
        ConfigError: Variables other than these were created.
    """
    created: list[str] = []

    def place(create: Callable[..., tf.Variable], **arguments: Any) -> tf.Variable:
        stage = variables[len(created)][1] if len(created) < len(variables) else 0
        with tf.device(devices[stage]):
            variable = create(**arguments)
        created.append(str(variable.name))
        return variable

    with tf.variable_creator_scope(place):
        yield
    pairs = zip_longest((name for name, _ in variables), created, fillvalue="nothing")
    for expected, name in pairs:
        if name != expected:
            raise ConfigError(
                [
                    "--stages.count: a second build of the network differs from the first: it has"
                    f" {name} in place of {expected}; equal arguments must build equal networks"
                ]
            )


def _within(
    context: Callable[[], AbstractContextManager[Any]], call: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that is called within a new context each time."""

    @wraps(call)
    def placed(*args: Any, **arguments: Any) -> Any:
        with context():
            return call(*args, **arguments)

    return placed


@contextmanager
def after_inputs(devices: Sequence[str]) -> Iterator[None]:
    """Have operations that name no device run with the latest of their inputs, in the order of
    devices; has no effect outside of graphs.

    TensorFlow would run them on the first GPU, and copy their inputs and outputs.
    """
    if tf.executing_eagerly():
        yield
        return
    places = {_place(device): number for number, device in enumerate(devices)}

    def choose(operation: tf.Operation) -> str:
        if operation.device:
            return str(operation.device)
        numbers = [places.get(_place(tensor.device), -1) for tensor in operation.inputs]
        latest = max(numbers, default=-1)
        return devices[latest] if latest >= 0 else ""

    with tf.compat.v1.device(choose):
        yield


def _place(device: str) -> str:
    """Return the type and number of a device, such as GPU:0."""
    return device.rpartition("device:")[2].lstrip("/")
