"""Small versions of published networks, as people write them: functional, subclassed, Sequential.

Numbers stand to the left and to the right of tensors, as in the papers' formulas.
"""

import math
from typing import Any

import tensorflow as tf
import tf_keras as keras
from tf_keras import layers


def lenet(image_size: int, outputs: int) -> keras.Model:
    """LeCun et al. 1998, "Gradient-based learning applied to document recognition"."""
    return keras.Sequential(
        [
            layers.Conv2D(6, 5, padding="same", activation="tanh"),
            layers.AveragePooling2D(2),
            layers.Conv2D(16, 5, activation="tanh"),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(120, activation="tanh"),
            layers.Dense(84, activation="tanh"),
            layers.Dense(outputs, dtype="float32"),
        ]
    )


def alexnet(image_size: int, outputs: int) -> keras.Model:
    """Krizhevsky et al. 2012, with its response normalisation."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(12, 5, strides=2, activation="relu")(image)
    x = layers.Lambda(lambda y: tf.nn.local_response_normalization(y, 5, 2.0, 1e-4, 0.75))(x)
    x = layers.MaxPooling2D(3, 2)(x)
    x = layers.Conv2D(24, 3, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.5)(layers.Dense(64, activation="relu")(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


class Vgg(keras.Model):  # type: ignore[misc]
    """Simonyan and Zisserman 2014."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.blocks = [
            layer
            for width, depth in ((8, 1), (16, 2), (32, 2))
            for layer in (
                *(layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(depth)),
                layers.MaxPooling2D(2),
            )
        ]
        self.flatten, self.drop = layers.Flatten(), layers.Dropout(0.5)
        self.hidden = layers.Dense(64, activation="relu")
        self.head = layers.Dense(outputs, dtype="float32")

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.drop(self.hidden(self.flatten(x)), training=training))


def vgg(image_size: int, outputs: int) -> keras.Model:
    return Vgg(outputs)


def network_in_network(image_size: int, outputs: int) -> keras.Model:
    """Lin et al. 2013."""
    model = keras.Sequential([keras.Input((image_size, image_size, 3))])
    for width, kernel in ((16, 5), (24, 3)):
        model.add(layers.Conv2D(width, kernel, padding="same", activation="relu"))
        model.add(layers.Conv2D(width, 1, activation="relu"))
        model.add(layers.MaxPooling2D(3, 2))
        model.add(layers.SpatialDropout2D(0.2))
    model.add(layers.Conv2D(outputs, 1, dtype="float32"))
    model.add(layers.GlobalAveragePooling2D(dtype="float32"))
    return model


def squeezenet(image_size: int, outputs: int) -> keras.Model:
    """Iandola et al. 2016."""

    def fire(x: Any, squeeze: int, expand: int) -> Any:
        x = layers.Conv2D(squeeze, 1, activation="relu")(x)
        parts = [layers.Conv2D(expand, k, padding="same", activation="relu")(x) for k in (1, 3)]
        return layers.concatenate(parts)

    image = keras.Input((image_size, image_size, 3))
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(16, 3, strides=2, activation="relu")(image))
    x = layers.Dropout(0.5)(fire(fire(x, 4, 8), 4, 8))
    x = layers.Conv2D(outputs, 1)(x)
    return keras.Model(image, tf.cast(tf.reduce_mean(x, [1, 2]), tf.float32))


def mobilenet_v2(image_size: int, outputs: int) -> keras.Model:
    """Sandler et al. 2018; MobileNetV3's hard swish by hand (Howard et al. 2019)."""

    def block(x: Any, expansion: int, width: int, stride: int) -> Any:
        before, channels = x, x.shape[-1]
        x = layers.Conv2D(expansion * channels, 1, use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = x * (tf.nn.relu6(x + 3.0) / 6.0)
        x = layers.BatchNormalization()(layers.Conv2D(width, 1, use_bias=False)(x))
        return before + x if stride == 1 and channels == width else x

    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    for stride in (1, 2, 1):
        x = block(x, 4, 8, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


def densenet(image_size: int, outputs: int) -> keras.Model:
    """Huang et al. 2017."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(12, 3, padding="same", use_bias=False)(image)
    for block in range(2):
        for _ in range(2):
            y = layers.ReLU()(layers.BatchNormalization()(x))
            y = layers.Conv2D(6, 3, padding="same", use_bias=False)(y)
            x = tf.concat([x, y], axis=-1)
        if not block:
            x = layers.Conv2D(int(0.5 * x.shape[-1]), 1, use_bias=False)(x)
            x = layers.AveragePooling2D(2)(x)
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


def inception_resnet(image_size: int, outputs: int) -> keras.Model:
    """Szegedy et al. 2016, with the residuals scaled."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(image)
    for scale in (0.17, 0.2):
        one = layers.Conv2D(8, 1, activation="relu")(x)
        three = layers.Conv2D(8, 3, padding="same", activation="relu")(one)
        branch = layers.Conv2D(16, 1)(layers.Concatenate()([one, three]))
        x = layers.ReLU()(x + scale * branch)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


class SqueezeExcite(layers.Layer):  # type: ignore[misc]
    """Hu et al. 2018."""

    def __init__(self, ratio: int = 4) -> None:
        super().__init__()
        self._ratio = ratio

    def build(self, shape: tf.TensorShape) -> None:
        self.down = layers.Dense(shape[-1] // self._ratio, activation="relu")
        self.up = layers.Dense(shape[-1])
        super().build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        gates = self.up(self.down(tf.reduce_mean(x, [1, 2], keepdims=True)))
        return x * (1.0 / (1.0 + tf.exp(-gates)))


def senet(image_size: int, outputs: int) -> keras.Model:
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(image)
    for _ in range(2):
        y = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(x))
        x = layers.ReLU()(layers.Add()([x, SqueezeExcite()(y)]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


class ConvNextBlock(layers.Layer):  # type: ignore[misc]
    """Liu et al. 2022, with stochastic depth and a scale for each channel."""

    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.spread = layers.DepthwiseConv2D(7, padding="same")
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.up, self.down = layers.Dense(4 * width), layers.Dense(width)
        self.drop = layers.Dropout(drop, noise_shape=(None, 1, 1, 1))
        self.scale = self.add_weight("scale", [width], initializer=keras.initializers.Constant(0.1))

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        y = self.down(gelu(self.up(self.norm(self.spread(x)))))
        return x + self.drop(tf.cast(self.scale, y.dtype) * y, training=training)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Hendrycks and Gimpel 2016, the approximation written out."""
    return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def convnext(image_size: int, outputs: int) -> keras.Model:
    image = keras.Input((image_size, image_size, 3))
    x = layers.LayerNormalization()(layers.Conv2D(16, 4, strides=4)(image))
    for drop in (0.0, 0.1):
        x = ConvNextBlock(16, drop)(x)
    x = layers.LayerNormalization()(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


class Tokens(layers.Layer):  # type: ignore[misc]
    """Patches with a class token and their places."""

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.patches = layers.Conv2D(width, patch, strides=patch)
        self._width = width

    def build(self, shape: tf.TensorShape) -> None:
        number = (shape[1] // self.patches.strides[0]) ** 2
        self.token = self.add_weight("token", [1, 1, self._width])
        self.places = self.add_weight("places", [1, number + 1, self._width])
        super().build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        x = self.patches(x)
        x = tf.reshape(x, [tf.shape(x)[0], -1, self._width])
        token = tf.repeat(tf.cast(self.token, x.dtype), tf.shape(x)[0], axis=0)
        return tf.concat([token, x], axis=1) + tf.cast(self.places, x.dtype)


def vit(image_size: int, outputs: int) -> keras.Model:
    """Dosovitskiy et al. 2020."""
    image = keras.Input((image_size, image_size, 3))
    x = Tokens(8, 24)(image)
    for _ in range(2):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.MultiHeadAttention(3, 8, dropout=0.1)(y, y)
        y = layers.Dense(48, activation=gelu)(layers.LayerNormalization(epsilon=1e-6)(x))
        x = x + layers.Dropout(0.1)(layers.Dense(24)(y))
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


class WideBlock(keras.Model):  # type: ignore[misc]
    """Zagoruyko and Komodakis 2016; with leaky rectifiers by hand."""

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.norms = [layers.BatchNormalization() for _ in range(2)]
        self.convs = [
            layers.Conv2D(width, 3, strides, padding="same", use_bias=False)
            for strides in (stride, 1)
        ]
        self.short = layers.Conv2D(width, 1, stride, use_bias=False)
        self.drop = layers.Dropout(0.3)

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        y = self.norms[0](x, training=training)
        y = tf.where(y > 0, y, 0.1 * y)
        short = self.short(y)
        y = self.norms[1](self.convs[0](y), training=training)
        y = self.drop(tf.where(y > 0, y, 0.1 * y), training=training)
        return short + self.convs[1](y)


class WideResNet(keras.Model):  # type: ignore[misc]
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.stem = layers.Conv2D(8, 3, padding="same", use_bias=False)
        self.blocks = keras.Sequential([WideBlock(16, 1), WideBlock(32, 2)])
        self.pool = layers.GlobalAveragePooling2D()
        self.head = layers.Dense(outputs, dtype="float32")

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        return self.head(self.pool(self.blocks(self.stem(x), training=training)))


def wide_resnet(image_size: int, outputs: int) -> keras.Model:
    return WideResNet(outputs)


def shufflenet(image_size: int, outputs: int) -> keras.Model:
    """Zhang et al. 2018: convolutions in groups, whose channels are shuffled."""

    def shuffle(x: tf.Tensor) -> tf.Tensor:
        batch, (height, width, channels) = tf.shape(x)[0], x.shape[1:]
        x = tf.reshape(x, [batch, height, width, 2, channels // 2])
        return tf.reshape(tf.transpose(x, [0, 1, 2, 4, 3]), [batch, height, width, channels])

    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same")(image)
    for _ in range(2):
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 1)(x)))
        y = layers.DepthwiseConv2D(3, padding="same")(layers.Lambda(shuffle)(y))
        x = layers.ReLU()(x + layers.BatchNormalization()(y))
    x = tf.reduce_mean(x, axis=[1, 2])
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(x))


def maxout(image_size: int, outputs: int) -> keras.Model:
    """Goodfellow et al. 2013, and concatenated rectifiers (Shang et al. 2016)."""
    image = keras.Input((image_size, image_size, 3))
    x = layers.Conv2D(16, 3, strides=2)(image)
    x = tf.maximum(x[..., :8], x[..., 8:])
    x = layers.Conv2D(8, 3)(x)
    x = tf.nn.relu(tf.concat([x, -x], -1))
    x = layers.Flatten()(layers.MaxPooling2D(2)(x))
    return keras.Model(image, layers.Dense(outputs, dtype="float32")(1.0 - x))


PUBLISHED = {
    network.__name__: network
    for network in (
        *(lenet, alexnet, vgg, network_in_network, squeezenet, mobilenet_v2, densenet),
        *(inception_resnet, senet, convnext, vit, wide_resnet, shufflenet, maxout),
    )
}
