"""Ordinary networks of one's own, good ones and such as only a trial refuses."""

import random
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tf_keras import layers


def _around(size: int, outputs: int, *middle: layers.Layer) -> keras.Model:
    image = keras.Input((size, size, 3))
    x = image
    for layer in middle:
        x = layer(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(outputs, dtype="float32", name="logits")(x))


def _activated(activation: str, size: int, outputs: int, **options: bool) -> keras.Model:
    conv = layers.Conv2D(8, 3, use_bias=options.pop("use_bias", False))
    return _around(
        *(size, outputs, conv),
        *(layers.BatchNormalization(**options), layers.Activation(activation)),
    )


def tanh(image_size: int, outputs: int) -> keras.Model:
    return _activated("tanh", image_size, outputs)


def mish(image_size: int, outputs: int) -> keras.Model:
    return _activated("mish", image_size, outputs)


def tanh_with_bias(image_size: int, outputs: int) -> keras.Model:
    return _activated("tanh", image_size, outputs, use_bias=True)


def tanh_not_fused(image_size: int, outputs: int) -> keras.Model:
    return _activated("tanh", image_size, outputs, fused=False)


class Balanced(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if training:
            self.add_loss(tf.reduce_mean(x**2))
        return x


def added_loss(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, layers.Conv2D(8, 3), Balanced())


class NumpyNoise(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + np.random.normal(size=(1, 1, 1, 3)).astype(np.float32)


def numpy_noise(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, NumpyNoise())


class PythonNoise(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x * random.uniform(0.9, 1.1)


def python_noise(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, PythonNoise())


class Clock(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(tf.timestamp() % 1.0, x.dtype)


def clock(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, Clock())


def _in_python(x: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(np.tanh, [x], tf.float32), x.shape)


class InPython(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.stop_gradient(_in_python(x))


def in_python(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, InPython())


class Shifted(layers.Layer):  # type: ignore[misc]
    def __init__(self, shift: Callable[[], tf.Variable]) -> None:
        super().__init__()
        self._shift = shift

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + self._shift()


def untracked(image_size: int, outputs: int) -> keras.Model:
    shift = tf.Variable(0.5, name="shift")
    return _around(image_size, outputs, Shifted(lambda: shift))


class Decides(layers.Layer):  # type: ignore[misc]
    """Decides by the value of a tensor."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if tf.reduce_sum(x) > 0:
            return x * 2.0
        return x


def decides(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, layers.Conv2D(8, 3), Decides())


class DecidesInTheGraph(Decides):
    """AutoGraph converts its call."""

    call = tf.function(Decides.call)


def decides_in_the_graph(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, layers.Conv2D(8, 3), DecidesInTheGraph())


class Moving(layers.Layer):  # type: ignore[misc]
    """A moving mean in a variable of its own."""

    def build(self, shape: tf.TensorShape) -> None:
        self.mean = self.add_weight(name="mean", shape=[shape[-1]], trainable=False)

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, [0, 1, 2]))
        return x - self.mean


def noises(image_size: int, outputs: int) -> keras.Model:
    """Six kinds of dropout and noise, two of normalisation, and a state."""
    return _around(
        image_size,
        outputs,
        *(layers.Conv2D(8, 3, padding="same"), layers.GroupNormalization(2), layers.ReLU()),
        *(layers.BatchNormalization(), layers.GaussianNoise(0.1), layers.GaussianDropout(0.1)),
        *(layers.SpatialDropout2D(0.1), layers.AlphaDropout(0.1), layers.Dropout(0.1), Moving()),
    )


def recurrent(image_size: int, outputs: int) -> keras.Model:
    """Attention and a recurrent layer, both with dropout inside."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Reshape((image_size, 3 * image_size))(image)
    x = layers.MultiHeadAttention(2, 4, dropout=0.2)(x, x)
    x = layers.GRU(8, dropout=0.1, recurrent_dropout=0.2)(x)
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


def augmented(image_size: int, outputs: int) -> keras.Model:
    return _around(
        image_size,
        outputs,
        *(layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.Conv2D(8, 3)),
    )


def frozen_twice(image_size: int, outputs: int) -> keras.Model:
    """A sub-model with dropout that is not trained, and used twice."""
    body = keras.Sequential([layers.Conv2D(3, 3, padding="same"), layers.Dropout(0.2)])
    body.trainable = False
    return _around(image_size, outputs, body, body, layers.Conv2D(8, 3))


def dense_pixels(image_size: int, outputs: int) -> keras.Model:
    """Logits of each pixel."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    return keras.Model(image, layers.Conv2D(outputs, 1, dtype="float32")(x))


OPERATORS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "number + x": lambda x: 1.5 + x,
    "x + number": lambda x: x + 1.5,
    "number - x": lambda x: 1.0 - x,
    "x - number": lambda x: x - 1.0,
    "number * x": lambda x: 0.5 * x,
    "x * number": lambda x: x * 0.5,
    "number / x": lambda x: 2.0 / (3.0 + abs(x)),
    "x / number": lambda x: x / 2.0,
    "number // x": lambda x: x + 7.0 // (3.0 + abs(x)),
    "x // number": lambda x: x + x // 2.0,
    "number % x": lambda x: x + 7.0 % (3.0 + abs(x)),
    "x % number": lambda x: x % 2.0,
    "number ** x": lambda x: 2.0**x,
    "x ** number": lambda x: x**2,
    "-x": lambda x: -x,
    "compared": lambda x: tf.where(x > 0, x, 0.1 * x) + tf.where(x <= 0.5, 2.0, x),
    "numpy number * x": lambda x: np.float32(0.5) * x,
    "numpy array * x": lambda x: np.linspace(0, 1, 8, dtype=np.float32) * x,
    "constant * x": lambda x: tf.constant(0.5) * x,
    "integer": lambda x: 2 * x + 1,
    "x @ array": lambda x: x @ np.eye(8, dtype=np.float32),
    "array @ x": lambda x: np.eye(6, dtype=np.float32) @ x,
    "slices": lambda x: tf.concat([x[..., :4], 1.0 - x[..., 4:]], -1),
}
"""Arithmetic of a tensor with a number on either side."""


class Operator(layers.Layer):  # type: ignore[misc]
    def __init__(self, operator: Callable[[tf.Tensor], tf.Tensor]) -> None:
        super().__init__()
        self._operator = operator

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self._operator(x)


def functional_arithmetic(image_size: int, outputs: int) -> keras.Model:
    """Each operator in a functional model."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3)(image)
    x = tf.concat([operator(x) for operator in OPERATORS.values()], -1)
    return keras.Model(image, layers.Dense(outputs)(layers.GlobalAveragePooling2D()(x)))


def layered_arithmetic(image_size: int, outputs: int) -> keras.Model:
    """Each operator in the call of a layer."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3)(image)
    x = tf.concat([Operator(operator)(x) for operator in OPERATORS.values()], -1)
    return keras.Model(image, layers.Dense(outputs)(layers.GlobalAveragePooling2D()(x)))


class Counted(layers.Layer):  # type: ignore[misc]
    """Counts the calls, in evaluations too."""

    def build(self, shape: tf.TensorShape) -> None:
        self.calls = self.add_weight("calls", [], trainable=False)
        super().build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1.0)
        return x / self.calls


def counted(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, layers.Conv2D(8, 3), Counted())


class Paired(layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [2, *x.shape[1:]])


def paired(image_size: int, outputs: int) -> keras.Model:
    """Accepts two images only."""
    return _around(image_size, outputs, layers.Conv2D(8, 3), Paired())


def probabilities(image_size: int, outputs: int) -> keras.Model:
    """Ends with a softmax."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(image))
    return keras.Model(image, layers.Dense(outputs, activation="softmax")(x))


def _ended(end: Callable[[tf.Tensor], tf.Tensor], size: int, outputs: int) -> keras.Model:
    image = keras.Input((size, size, 3))
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(image))
    return keras.Model(image, end(layers.Dense(outputs)(x)))


def own_softmax(image_size: int, outputs: int) -> keras.Model:
    """Ends with quotients that are those of a softmax."""

    def end(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True)

    return _ended(layers.Lambda(end), image_size, outputs)


def sigmoid(image_size: int, outputs: int) -> keras.Model:
    """Ends with a sigmoid, whose values are then only shaped."""
    end = keras.Sequential([layers.Activation("sigmoid"), layers.Reshape([outputs])])
    return _ended(end, image_size, outputs)


class Squashing(layers.Layer):  # type: ignore[misc]
    """Computes a tanh in a function of its own."""

    @tf.function
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x)


def bounded(image_size: int, outputs: int) -> keras.Model:
    return _ended(Squashing(), image_size, outputs)


def softmax_of_columns(image_size: int, outputs: int) -> keras.Model:
    """Ends with a softmax over another axis than that of the classes."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(outputs, 1)(image)
    return keras.Model(image, layers.Softmax(axis=2)(x))


def gated(image_size: int, outputs: int) -> keras.Model:
    """Ends with a scaled tanh, which bounds logits softly."""
    return _ended(layers.Lambda(lambda x: 30.0 * tf.tanh(x / 30.0)), image_size, outputs)


def normalised(image_size: int, outputs: int) -> keras.Model:
    """With a layer of Keras that has a whole number, as EfficientNet has it."""
    return _around(image_size, outputs, layers.Normalization(), layers.Conv2D(8, 3))


class Steps(layers.Layer):  # type: ignore[misc]
    """Counts training steps in a whole number."""

    def build(self, shape: tf.TensorShape) -> None:
        self.steps = self.add_weight("steps", [], tf.int64, "zeros", trainable=False)
        super().build(shape)

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if training:
            self.steps.assign_add(1)
        return x


def counts_steps(image_size: int, outputs: int) -> keras.Model:
    return _around(image_size, outputs, layers.Conv2D(8, 3), Steps())


def spectral(image_size: int, outputs: int) -> keras.Model:
    """With a layer of Keras that keeps a vector of its own."""
    return _around(image_size, outputs, layers.SpectralNormalization(layers.Conv2D(8, 3)))
