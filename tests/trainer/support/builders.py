"""Networks of one's own, for `--model.builder`: good ones, and one for each refusal."""

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers


def good(image_size: int, outputs: int) -> keras.Model:
    """A convolution with batch norm, three kinds of noise, and a dense layer; without names."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3, strides=2, activation="relu")(image)
    x = layers.SpatialDropout2D(0.2)(layers.BatchNormalization()(x))
    x = layers.GaussianNoise(0.1)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(layers.Dropout(0.3)(x)))


def plain_lambda(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Lambda(lambda x: 2.0 * x), image_size)


def other_activation(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Activation("elu"), image_size)


class Subclassed(keras.Model):  # type: ignore[misc]
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.flat, self.drop = layers.Flatten(), layers.Dropout(0.5)
        self.dense = layers.Dense(outputs, dtype="float32")

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.dense(self.drop(self.flat(images), training=training))


def subclassed(image_size: int, outputs: int) -> keras.Model:
    return Subclassed(outputs)


def attention(image_size: int, outputs: int) -> keras.Model:
    """Attention over patches, whose dropout is inside of a layer."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Reshape((-1, 16))(layers.Conv2D(16, 2, strides=2)(image))
    x = layers.MultiHeadAttention(2, 8, dropout=0.2)(x, x)
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x[:, 0]))


class Gated(layers.Layer):  # type: ignore[misc]
    """A layer with a weight of its own and a layer inside."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.inner = layers.Dense(units)

    def build(self, shape: tf.TensorShape) -> None:
        self.gate = self.add_weight(name="gate", shape=[], initializer="ones")
        self.inner.build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + self.gate * self.inner(x)


def nested(image_size: int, outputs: int) -> keras.Model:
    """A model inside of a model, which is used twice, and a layer inside of a layer."""
    half = keras.Input((image_size // 2, image_size // 2, 8))
    x = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(half))
    body = keras.Model(half, layers.ReLU()(x))
    image = keras.Input((image_size, image_size, 3))
    x = body(body(layers.Conv2D(8, 2, strides=2)(image)))
    x = Gated(8)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(layers.Dropout(0.3)(x)))


def unequal(image_size: int, outputs: int) -> keras.Model:
    """Another network each time."""
    unequal.built += 1  # type: ignore[attr-defined]
    return _ending(outputs, layers.Dense(4, name=f"dense_{unequal.built}"), image_size)  # type: ignore[attr-defined]


unequal.built = 0  # type: ignore[attr-defined]


def _ending(outputs: int, middle: layers.Layer, size: int = 8) -> keras.Model:
    image = keras.Input((size, size, 3))
    x = middle(layers.Flatten()(image))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


def raises(image_size: int, outputs: int) -> keras.Model:
    raise RuntimeError("no such thing")


def takes_nothing() -> keras.Model:
    return _ending(10, layers.Dense(4))


def function_only(image_size: int, outputs: int) -> object:
    return lambda images: images


def other_size(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Dense(4), image_size + 1)


def other_outputs(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs + 1, layers.Dense(4), image_size)


def several(image_size: int, outputs: int) -> keras.Model:
    image = keras.Input((image_size, image_size, 3))
    x = layers.Flatten()(image)
    return keras.Model(image, [layers.Dense(outputs)(x), layers.Dense(outputs)(x)])


def half(image_size: int, outputs: int) -> keras.Model:
    model = _ending(outputs, layers.Dense(4), image_size)
    return keras.Model(model.input, layers.Activation("linear", dtype="float16")(model.output))


def half_weights(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Dense(4, dtype="float16"), image_size)


def same_names(image_size: int, outputs: int) -> keras.Model:
    class Twice(layers.Layer):  # type: ignore[misc]
        def build(self, _: object) -> None:
            self.a, self.b = (self.add_weight(name="w", shape=[]) for _ in range(2))

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x * self.a * self.b

    return _ending(outputs, Twice(), image_size)


def nothing_to_learn(image_size: int, outputs: int) -> keras.Model:
    model = _ending(outputs, layers.Dense(4), image_size)
    model.trainable = False
    return model


def own_loss(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Dense(4, kernel_regularizer="l2"), image_size)


def own_randomness(image_size: int, outputs: int) -> keras.Model:
    return _ending(outputs, layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x))), image_size)


def always_random(image_size: int, outputs: int) -> keras.Model:
    image = keras.Input((image_size, image_size, 3))
    x = layers.Dropout(0.5)(layers.Flatten()(image), training=True)
    return keras.Model(image, layers.Dense(outputs)(x))


def without_effect(image_size: int, outputs: int) -> keras.Model:
    stop = layers.Lambda(tf.stop_gradient)
    image = keras.Input((image_size, image_size, 3))
    x = stop(layers.Dense(4, name="lost")(layers.Flatten()(image)))
    return keras.Model(image, layers.Dense(outputs)(x))
