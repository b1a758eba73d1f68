"""A last layer that is divided by classes over a group of ranks, as in partial FC (An et al. 2021,
"Partial FC: Training 10 Million Identities on a Single Machine"), with all classes in every step.

With C classes and M ranks in a group, each of them computes the features of its own images, and
holds the kernel [D, C / M] and the bias [C / M] of consecutive classes. Ranks exchange features,
never the gradients of classes that others hold; see `classification.py`.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from trainer.checkpoints.format import Tensors
from trainer.checkpoints.snapshot import stored_name
from trainer.distributed.communicator import Communicator, Group

_OPTION = "--head.groups"


class DividedHead:
    """This rank's part of the last layer of a network.

    Attributes:
        network: The network without its last layer: from images to features [b, D]. It owns this
            rank's part of the last layer, whose variables follow those of the other layers.
        group: The ranks that share the last layer: consecutive ones.
        holders: The ranks that hold the same part of it.
    """

    def __init__(self, model: keras.Model, communicator: Communicator, groups: int = 1) -> None:
        """Args:
        model: Network with the outputs of this rank's classes only. It must end in a dense layer.
        communicator: World of ranks.
        groups: Ranks that share the last layer.

        Raises:
            ConfigError: The network does not end in a dense layer without activation, in float32.
        """
        self._layer, features = _last_layer(model)
        self.group, self.holders = communicator.groups(groups)
        self._world = communicator
        self.network = keras.Model(model.input, features, name=model.name)
        # Keras adds the variables of layers that are attributes to those of the network.
        self.network.last_layer = self._layer
        self.network.draws = getattr(model, "draws", None)

    @property
    def kernel(self) -> tf.Tensor:
        """Columns of this rank's classes, float32 [D, C / M]."""
        return tf.convert_to_tensor(self._layer.kernel)

    @property
    def bias(self) -> tf.Tensor:
        """Biases of this rank's classes, float32 [C / M]; zeros if the layer has none."""
        if self._layer.use_bias:
            return tf.convert_to_tensor(self._layer.bias)
        return tf.zeros([self._layer.units])

    @property
    def trained(self) -> list[tf.Variable]:
        """Variables of this rank's part that are trained: the last ones of the network's."""
        return list(self._layer.trainable_variables)

    @property
    def first(self) -> int:
        """First class of this rank's part."""
        return self.group.index * int(self._layer.units)

    @property
    def classes(self) -> int:
        """Classes of the whole layer."""
        return self.group.size * int(self._layer.units)

    @property
    def flops_of_others(self) -> float:
        """Floating-point operations of a step for each image of this rank in this rank's part, for
        the images of the other ranks of the group.
        """
        return 6.0 * float(prod(self._layer.kernel.shape)) * (self.group.size - 1)

    def state(self, variables: Mapping[str, tf.Variable]) -> "DividedVariables":
        """Return those of some variables that are parts: the layer's, and their optimizer's.

        Args:
            variables: Variables by their names in a checkpoint, each GROUP/NAME.
        """
        names = {stored_name(variable) for variable in self._layer.variables}
        parts = {
            name: variable
            for name, variable in variables.items()
            if name.partition("/")[2] in names
        }
        return DividedVariables(parts, self._world, self.group, self.holders)

    def initialize(self) -> None:
        """Set every rank's part to that of the whole layer's initial values; every rank must call
        it.

        The initializers of a layer repeat their values, so the whole layer is that of the undivided
        network with the same seed. Only rank 0 computes it, in the memory of its host: about three
        times the whole kernel for a moment, because the initializers of Keras keep the drawn values
        until they are scaled and shifted; then the whole kernel and one part at a time.
        """
        weights = {"kernel": [int(self._layer.kernel.shape[0]), self.classes]}
        if self._layer.use_bias:
            weights["bias"] = [self.classes]
        whole: Tensors = {}
        if self._world.rank == 0:
            with tf.device("CPU:0"):
                for weight, shape in weights.items():
                    start = getattr(self._layer, f"{weight}_initializer")
                    name = stored_name(getattr(self._layer, weight))
                    # Unlike numpy(), it copies nothing.
                    whole[name] = np.asarray(start(shape, dtype=tf.float32))
        parts = {stored_name(variable): variable for variable in self._layer.variables}
        DividedVariables(parts, self._world, self.group, self.holders).scatter(whole)

    def total(self, squares: tf.Tensor) -> tf.Tensor:
        """Complete sums of squares of kernels, the last of which is divided; every rank must call
        it. See `Lars`.

        The sum goes over the whole world, in which each part occurs equally often: over each group
        alone, ranks that hold the same part could get other last bits than each other.
        """
        if not self.trained:
            return squares
        (sums,) = self._world.everyone.sum([squares[:, -1:]], "head_kernel")
        copies = self._world.size // self.group.size
        return tf.concat([squares[:, :-1], sums / copies], 1)


class DividedVariables:
    """Variables of which each rank of a group holds an equal part of the last axis; see
    `trainer.checkpoints.divided.DividedState`.

    Parts travel one by one, so rank 0 needs memory for the whole tensors and for one part.
    """

    def __init__(
        self,
        parts: Mapping[str, tf.Variable],
        communicator: Communicator,
        group: Group,
        holders: Group,
    ) -> None:
        """Args:
        parts: This rank's parts by name.
        communicator: World of ranks.
        group: The ranks that hold the parts of the same whole.
        holders: The ranks that hold the same parts.
        """
        self._parts, self._world = dict(parts), communicator
        self._group, self._holders = group, holders

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the whole tensors, by name."""
        size = self._group.size
        return {
            name: (*variable.shape[:-1], variable.shape[-1] * size)
            for name, variable in self._parts.items()
        }

    def gather(self) -> Tensors:
        """Return the whole tensors by name on rank 0, and nothing elsewhere. Every rank must call
        it.
        """
        whole: Tensors = {}
        # The first group has all parts.
        if self._world.rank < self._group.size:
            self._gather(whole)
        # A rank that ends and leaves the world would end the exchanges of the first group.
        self._world.barrier()
        return whole

    def _gather(self, whole: Tensors) -> None:
        group = self._group
        for name, variable in self._parts.items():
            if self._world.rank == 0:
                whole[name] = np.empty(self.shapes[name], np.float32)
            for part in range(group.size):
                # From the host, so that a GPU needs no memory for the parts of others.
                with tf.device("CPU:0"):
                    mine = tf.identity(variable if part == group.index else variable[:0])
                    received = group.to_first(mine, f"gather.{name}.{part}")
                if self._world.rank == 0:
                    whole[name][..., self._columns(variable, part)] = received.numpy()

    def scatter(self, tensors: Tensors) -> None:
        """Set every rank's parts. Every rank must call it.

        Args:
            tensors: The whole tensors on rank 0, perhaps with others; ignored elsewhere.
        """
        group = self._group
        for name, variable in self._parts.items():
            mine: Any = tf.zeros(variable.shape)
            if self._world.rank < group.size:
                for part in range(group.size):
                    rows = [
                        variable.shape[0] if place == part else 0 for place in range(group.size)
                    ]
                    with tf.device("CPU:0"):
                        sent = tf.zeros([0, *variable.shape[1:]])
                        if self._world.rank == 0:
                            columns = self._columns(variable, part)
                            sent = tf.constant(tensors[name][..., columns])
                        received = group.from_first(sent, rows, f"scatter.{name}.{part}")
                    if part == group.index:
                        mine = received
            with tf.device("CPU:0"):
                held = self._holders.spread(tf.identity(mine), f"spread.{name}")
            variable.assign(held)

    @staticmethod
    def _columns(variable: tf.Variable, part: int) -> slice:
        width = int(variable.shape[-1])
        return slice(part * width, (part + 1) * width)


def _last_layer(model: keras.Model) -> tuple[keras.layers.Dense, Any]:
    """Return the dense layer that a network ends in, and its symbolic input.

    Raises:
        ConfigError: The network ends otherwise; says how.
    """
    if not getattr(model, "_is_graph_network", False):
        raise _refusal("the network is a model without declared inputs; build it from keras.Input")
    # No public names; a layer itself also lists its uses in other models.
    layer = model.output._keras_history.layer  # noqa: SLF001
    nodes = [node for level in model._nodes_by_depth.values() for node in level]  # noqa: SLF001
    inputs = [node.keras_inputs[0] for node in nodes if node.layer is layer]
    what = f"the network ends in {layer.name!r}, a {type(layer).__name__}"
    if not isinstance(layer, keras.layers.Dense):
        raise _refusal(what)
    if len(inputs) != 1 or len(inputs[0].shape) != 2:
        raise _refusal(f"{what} that is not applied once, to one row of features per image")
    if layer.activation is not keras.activations.linear:
        raise _refusal(f"{what} with the activation {layer.activation.__name__}")
    if layer.compute_dtype != "float32":
        raise _refusal(f"{what} in {layer.compute_dtype}")
    return layer, inputs[0]


def _refusal(problem: str) -> ConfigError:
    return ConfigError(
        [
            f"{_OPTION}: {problem}; what can be divided is a last layer that is a Dense without"
            " activation, with dtype='float32'"
        ]
    )
