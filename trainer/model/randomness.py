"""Random numbers of layers, such as dropout: they follow from seed, step, rank and micro-batch.

Keras's layers draw from a state that no checkpoint holds, so that a resumed run would differ. Here
every draw has a key of its own instead, and a stateless operation computes it (Salmon et al. 2011,
"Parallel random numbers: as easy as 1, 2, 3").
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
import tf_keras as keras

# Not public, but all layers of Keras that draw use it.
from tf_keras.src.backend import RandomGenerator

from trainer.model.layers import all_layers

_STATEFUL = re.compile(
    r"Random(?!Dataset)|TruncatedNormal|Parameterized|Multinomial|Stateful[A-Z]|Rng|SampleDistorted"
)
"""Beginnings of the names of operations that draw from a state."""


class _Draws:
    """The key of the current forward pass, and how many draws it has made."""

    def __init__(self) -> None:
        self.key: tf.Tensor | None = None
        self._count = 0

    def begin(self, key: tf.Tensor | None) -> None:
        self.key, self._count = key, 0

    def next_seed(self) -> tf.Tensor:
        """Return a seed for one draw, int64 [2].

        Raises:
            ValueError: No forward pass of a training is under way.
        """
        if self.key is None:
            raise ValueError(
                "a layer draws random numbers outside of a training step; it must not draw with"
                " training=False"
            )
        self._count += 1
        return tf.random.experimental.stateless_fold_in(self.key, self._count)


class _Generator(RandomGenerator):  # type: ignore[misc]
    """A generator of Keras's layers whose draws have keys instead of a state."""

    def __init__(self, draws: _Draws) -> None:
        super().__init__(seed=0, rng_type=self.RNG_STATELESS)
        self._draws = draws

    def make_seed_for_stateless_op(self) -> tf.Tensor:
        return self._draws.next_seed()


def use_keys(model: keras.Model) -> None:
    """Have all layers of a model that draw random numbers take keys from `randomness`."""
    draws, random = _Draws(), False
    for layer in all_layers(model):
        if hasattr(layer, "_random_generator"):
            layer._random_generator = _Generator(draws)  # noqa: SLF001 Keras has no setter
            random = True
        elif type(layer).__name__ == "StochasticDepth" and hasattr(layer, "drop_path_rate"):
            layer.call = _stochastic_depth(layer, draws)
            random = True
    model.draws = draws if random else None


def is_random(model: keras.Model) -> bool:
    """Return whether any layer of a model may draw random numbers."""
    return getattr(model, "draws", None) is not None


@contextmanager
def randomness(
    model: keras.Model,
    seed: int,
    step: tf.Tensor | None,
    rank: tf.Tensor | int,
    piece: tf.Tensor | int,
) -> Iterator[None]:
    """Set the seeds of the random numbers of the forward passes inside; changes nothing for a
    model without random layers.

    Args:
        model: Model whose layers draw.
        seed: Seed of the run.
        step: Steps done, int64 scalar; may be None for a model without random layers.
        rank: Rank that computes.
        piece: Number of the micro-batch in the step, int32 scalar.
    """
    if not is_random(model):
        yield
        return
    key = tf.stack([tf.constant(seed, tf.int64), tf.cast(step, tf.int64)])
    for number in (rank, piece):
        key = tf.random.experimental.stateless_fold_in(key, number)
    model.draws.begin(key)
    try:
        yield
    finally:
        model.draws.begin(None)


def operations(graph: tf.Graph) -> list[Any]:
    """Return the operations of a graph and of the functions that it calls, as `NodeDef`."""
    definition = graph.as_graph_def()
    nodes = [*definition.node]
    for function in definition.library.function:
        nodes += function.node_def
    return nodes


def stateful_draws(graph: tf.Graph) -> list[str]:
    """Return the names of operations that draw random numbers from a state, in a graph and in the
    functions that it calls.
    """
    return [node.name for node in operations(graph) if _STATEFUL.match(node.op)]


def _stochastic_depth(layer: Any, draws: _Draws) -> Any:
    """Return a call of tf_keras's StochasticDepth (Huang et al. 2016) that takes keys. The layer
    draws from TensorFlow's state, and in float32, which float16 cannot be multiplied by.
    """

    def call(x: tf.Tensor, *, training: bool = False) -> tf.Tensor:
        if not training:
            return x
        keep = 1.0 - layer.drop_path_rate
        shape = [tf.shape(x)[0], *[1] * (len(x.shape) - 1)]
        chosen = tf.random.stateless_uniform(shape, draws.next_seed()) < keep
        return x / keep * tf.cast(chosen, x.dtype)

    return call
