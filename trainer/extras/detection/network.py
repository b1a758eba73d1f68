"""FCOS (Tian et al. 2019, arXiv 1904.01355) on a ResNet with a feature pyramid (Lin et al. 2017).

Each location of the pyramid has an output: logits of the classes, the logit of the centerness, the
logarithms of the distances to the left, top, right and bottom of its box in strides, and, so that
nothing else needs to know the pyramid, the location itself: x, y and the stride, as fractions of
the image. The towers of the head are shared by all levels, with group normalisation and a factor of
the distances for each level, as published. The bias of the classes makes every class as probable
as `PRIOR` at first (Lin et al. 2017, Focal Loss). Not as published: coarser maps are enlarged
bilinearly, as in the other networks here, where the feature pyramid repeats pixels.
"""

from collections.abc import Sequence
from math import gcd, log
from typing import Any, Final

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.config import ModelConfig
from trainer.model.resnet import Layers, encode

PRIOR: Final = 0.01
_GROUP: Final = 8
"""Channels of a group of group normalisation: 32 groups of 256 channels, as published."""
_EPSILON: Final = 1e-3


class Scale(keras.layers.Layer):  # type: ignore[misc] # tf_keras has no types
    """A trainable factor, which starts at 1."""

    def build(self, shape: Any) -> None:
        """Make the factor."""
        self.factor = self.add_weight("factor", (), initializer="ones", dtype="float32")
        super().build(shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Multiply by the factor."""
        return inputs * tf.cast(self.factor, inputs.dtype)


class GroupNorm(keras.layers.Layer):  # type: ignore[misc] # as above
    """Group normalisation (Wu and He 2018), whose statistics do not depend on the batch. It
    computes in float32, and returns values of its policy, so that maps stay small in mixed
    precision.

    Keras has one, which weighs every value by one. With its gradient it takes several times the
    operations of this one, of which a network has up to 40.
    """

    def __init__(self, groups: int, name: str, policy: Any = "float32") -> None:
        super().__init__(name=name, dtype=policy)
        self._groups = groups

    def build(self, shape: Any) -> None:
        """Make a factor and an offset for each channel."""
        dtypes = {"dtype": "float32", "experimental_autocast": False}
        self.gamma = self.add_weight("gamma", (shape[-1],), initializer="ones", **dtypes)
        self.beta = self.add_weight("beta", (shape[-1],), initializer="zeros", **dtypes)
        super().build(shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalise a map, [b, height, width, channels]."""
        height, width, channels = inputs.shape[1:]
        grouped = [self._groups, channels // self._groups]
        x = tf.cast(tf.reshape(inputs, [-1, height * width, *grouped]), tf.float32)
        y = _normalised(x, tf.reshape(self.gamma, grouped), tf.reshape(self.beta, grouped))
        return tf.cast(tf.reshape(y, [-1, height, width, channels]), self.compute_dtype)


@tf.custom_gradient  # type: ignore[untyped-decorator] # TensorFlow has no types
def _normalised(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
    """Normalise each group of [b, cells, groups, channels], and differentiate that in few
    operations.
    """

    def mean(values: tf.Tensor) -> tf.Tensor:
        # Of each channel first, because a sum over one axis needs no transposition.
        by_channel = tf.reduce_mean(values, 1, keepdims=True)
        return tf.reduce_mean(by_channel, 3, keepdims=True)

    centred = x - mean(x)
    factor = tf.math.rsqrt(mean(tf.square(centred)) + _EPSILON)
    normal = centred * factor

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        inner = upstream * gamma
        of_x = factor * (inner - mean(inner) - normal * mean(inner * normal))
        return of_x, tf.reduce_sum(upstream * normal, [0, 1]), tf.reduce_sum(upstream, [0, 1])

    return normal * gamma + beta, gradient


class Locations(keras.layers.Layer):  # type: ignore[misc] # as above
    """Makes one list of the cells of all maps, and appends x, y and stride of each."""

    def call(self, maps: Sequence[tf.Tensor]) -> tf.Tensor:
        """From maps, float32 [b, height, width, c] each, to [b, locations, c + 3]."""
        cells = [tf.reshape(x, [-1, x.shape[1] * x.shape[2], x.shape[3]]) for x in maps]
        listed = tf.concat(cells, 1)
        places = np.concatenate([_places(*x.shape[1:3]) for x in maps])
        constant = tf.constant(places[None], tf.float32)
        return tf.concat([listed, tf.tile(constant, [tf.shape(listed)[0], 1, 1])], 2)


def _places(height: int, width: int) -> Any:
    """Return x, y and stride of the cells of a map, [height * width, 3]."""
    y, x = np.meshgrid(
        (np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij"
    )
    return np.stack([x, y, np.full_like(x, 1.0 / height)], -1).reshape(-1, 3)


def build_fcos(
    config: ModelConfig, outputs: int, precision: str = "float32", seed: int = 0
) -> keras.Model:
    """Build the network of the paper: levels P3 to P7 and towers of four convolutions, four times
    as wide as the first stage of the ResNet.

    Args:
        config: Depth, width, stem and image size of the ResNet.
        outputs: Number of classes.
        precision: Dtype policy of the convolutions, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.

    Returns:
        A model from normalised images [b, size, size, 3] to float32 outputs of the locations
        [b, locations, outputs + 8].
    """
    return _build(config, outputs, precision, seed, stages=(2, 3, 4), extra=2, tower=4, wider=4)


def build_small_fcos(
    config: ModelConfig, outputs: int, precision: str = "float32", seed: int = 0
) -> keras.Model:
    """Build a network for small images: three levels, whose finest has a quarter of the resolution
    with the stem 7x7, and towers of two convolutions, twice as wide as the first stage; see
    `build_fcos`.
    """
    return _build(config, outputs, precision, seed, stages=(1, 2, 3), extra=0, tower=2, wider=2)


def _build(
    config: ModelConfig,
    outputs: int,
    precision: str,
    seed: int,
    *,
    stages: tuple[int, ...],
    extra: int,
    tower: int,
    wider: int,
) -> keras.Model:
    layers = Layers(precision, seed, config.batch_norm_momentum)
    size, channels = config.image_size, wider * config.width
    image = keras.Input((size, size, 3), name="image")
    features = encode(image, config, layers)
    head = _Head(layers, channels)
    maps = [head.conv(1, f"lateral{stage}")(features[stage]) for stage in stages]
    for fine in reversed(range(len(maps) - 1)):
        larger = layers.resized(maps[fine + 1], *maps[fine].shape[1:3])
        maps[fine] = keras.layers.Add(dtype=layers.policy)([maps[fine], larger])
    maps = [head.conv(3, f"pyramid{stage}")(x) for stage, x in zip(stages, maps, strict=True)]
    for number in range(extra):
        # P7 follows a ReLU of P6 (Lin et al. 2017, Focal Loss).
        last = layers.relu(maps[-1]) if number else maps[-1]
        padded = keras.layers.ZeroPadding2D(1, dtype=layers.policy)(last)
        maps.append(head.conv(3, f"pyramid{stages[-1] + 1 + number}", stride=2)(padded))
    towers = {
        name: [(head.shared(f"{name}_conv{n}"), head.norm(f"{name}_norm{n}"))
               for n in range(tower)]
        for name in ("class", "box")
    }  # fmt: skip
    classes = head.shared("class_logits", outputs, -log((1 - PRIOR) / PRIOR))
    center, distances = head.shared("centerness", 1), head.shared("distances", 4)
    levels = []
    for level, x in enumerate(maps):
        of_class, of_box = x, x
        for conv, norm in towers["class"]:
            of_class = layers.relu(norm(conv(of_class)))
        for conv, norm in towers["box"]:
            of_box = layers.relu(norm(conv(of_box)))
        scale = head.add(Scale(name=f"scale{level}", dtype="float32"))
        parts = [classes(of_class), center(of_box), scale(distances(of_box))]
        levels.append(keras.layers.Concatenate(dtype="float32")(parts))
    listed = Locations(dtype="float32", name="outputs")(levels)
    model = keras.Model(image, listed, name=f"fcos{config.depth}")
    # Those that the weights of a classification do not have; see `load_initial_weights`.
    model.heads = tuple(layer.name for layer in head.made)
    return model


class _Head:
    """Makes the layers that a classification does not have."""

    def __init__(self, layers: Layers, channels: int) -> None:
        self._layers, self._channels = layers, channels
        self.made: list[keras.layers.Layer] = []

    def conv(self, size: int, name: str, stride: int = 1) -> keras.layers.Layer:
        """Make a convolution of the pyramid."""
        start = keras.initializers.VarianceScaling(
            1.0, "fan_in", "uniform", self._layers.next_seed()
        )
        return self._conv(
            self._channels, size, start, name=name, strides=stride,
            padding="valid" if stride > 1 else "same", dtype=self._layers.policy,
        )  # fmt: skip

    def shared(self, name: str, outputs: int | None = None, bias: float = 0.0) -> Any:
        """Make a convolution that all levels share: one of a tower, or one with its own number of
        outputs, which are float32 for the accuracy of the loss.
        """
        start = keras.initializers.RandomNormal(stddev=0.01, seed=self._layers.next_seed())
        return self._conv(
            outputs or self._channels, 3, start, name=name, padding="same",
            bias_initializer=keras.initializers.Constant(bias),
            dtype="float32" if outputs else self._layers.policy,
        )  # fmt: skip

    def norm(self, name: str) -> keras.layers.Layer:
        """Make a group normalisation."""
        groups = self._channels // gcd(_GROUP, self._channels)
        return self.add(GroupNorm(groups, name, self._layers.policy))

    def _conv(self, channels: int, size: int, start: Any, **options: Any) -> keras.layers.Layer:
        return self.add(keras.layers.Conv2D(channels, size, kernel_initializer=start, **options))

    def add(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        """Note a layer, and return it."""
        self.made.append(layer)
        return layer
