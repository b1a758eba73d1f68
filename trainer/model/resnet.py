"""ResNet v1.5: He et al. 2015 with the stride of a bottleneck in its 3x3 convolution.

Initialisation follows Goyal et al. 2017, section 5.1: He's for convolutions, zero for the scale of
each block's last batch norm, so that every block starts as the identity.
"""

from itertools import count
from typing import Any

import tf_keras as keras

from trainer.config import ModelConfig
from trainer.networks import BLOCKS, BOTTLENECK_FROM

Symbolic = Any
"""A symbolic tensor of Keras's functional API, of shape [b, height, width, channels]."""

EXPANSION = 4
"""Output channels of a bottleneck for each of its inner channels."""
BATCH_NORM_EPSILON = 1e-5


def build_resnet(
    config: ModelConfig, classes: int, precision: str = "float32", seed: int = 0
) -> keras.Model:
    """Build the network.

    Args:
        config: Depth, width, stem and image size.
        classes: Number of outputs.
        precision: Dtype policy of the convolutions, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.

    Returns:
        A model from normalised images [b, size, size, 3] to float32 logits [b, classes].
    """
    layers = Layers(precision, seed, config.batch_norm_momentum)
    image = keras.Input((config.image_size, config.image_size, 3), name="image")
    x = encode(image, config, layers)[-1]
    x = keras.layers.GlobalAveragePooling2D(dtype="float32", name="pool")(x)
    start = keras.initializers.RandomNormal(stddev=0.01, seed=layers.next_seed())
    # Softmax and loss need float32 for accuracy.
    logits = keras.layers.Dense(classes, kernel_initializer=start, dtype="float32", name="logits")(
        x
    )
    return keras.Model(image, logits, name=f"resnet{config.depth}")


def encode(image: Symbolic, config: ModelConfig, layers: "Layers") -> list[Symbolic]:
    """Return the output of the stem before its pool, and of each of the four stages."""
    if config.stem == "7x7":
        x = layers.relu(layers.norm(layers.conv(image, config.width, 7, 2)))
        outputs = [x]
        x = keras.layers.ZeroPadding2D(1, dtype=layers.policy)(x)
        x = keras.layers.MaxPooling2D(3, 2, dtype=layers.policy)(x)
    else:
        x = layers.relu(layers.norm(layers.conv(image, config.width, 3, 1)))
        outputs = [x]
    block = layers.bottleneck if config.depth >= BOTTLENECK_FROM else layers.basic
    for stage, blocks in enumerate(BLOCKS[config.depth]):
        for number in range(blocks):
            stride = 2 if stage > 0 and number == 0 else 1
            x = block(x, config.width * 2**stage, stride)
        outputs.append(x)
    return outputs


class Layers:
    """Building blocks with consecutive names and seeds, so that equal configurations build equal
    models.
    """

    def __init__(self, precision: str, seed: int, batch_norm_momentum: float) -> None:
        self.policy = keras.mixed_precision.Policy(precision)
        self._seed, self._batch_norm_momentum = seed, batch_norm_momentum
        self._number = count()
        self._norms = count()

    def next_seed(self) -> int:
        return self._seed * 1000 + next(self._number)

    def conv(
        self, x: Symbolic, channels: int, size: int, stride: int, dilation: int = 1
    ) -> Symbolic:
        number = self.next_seed()
        if size > 1 and stride > 1:
            # Explicit padding, because "same" would shift the grid at even image sizes.
            x = keras.layers.ZeroPadding2D(size // 2, dtype=self.policy)(x)
        return keras.layers.Conv2D(
            channels,
            size,
            stride,
            padding="valid" if stride > 1 else "same",
            dilation_rate=dilation,
            use_bias=False,
            kernel_initializer=keras.initializers.VarianceScaling(
                2.0, "fan_in", "untruncated_normal", seed=number
            ),
            dtype=self.policy,
            name=f"conv{number % 1000}",
        )(x)

    def norm(self, x: Symbolic, *, last: bool = False) -> Symbolic:
        return keras.layers.BatchNormalization(
            name=f"norm{next(self._norms)}",
            momentum=self._batch_norm_momentum,
            epsilon=BATCH_NORM_EPSILON,
            gamma_initializer="zeros" if last else "ones",
            dtype=self.policy,
        )(x)

    def resized(self, x: Symbolic, height: int, width: int) -> Symbolic:
        """Enlarge bilinearly, unless the size is right already."""
        if tuple(x.shape[1:3]) == (height, width):
            return x
        return keras.layers.Resizing(height, width, dtype=self.policy)(x)

    def relu(self, x: Symbolic) -> Symbolic:
        return keras.layers.ReLU(dtype=self.policy)(x)

    def basic(self, x: Symbolic, channels: int, stride: int) -> Symbolic:
        y = self.relu(self.norm(self.conv(x, channels, 3, stride)))
        y = self.norm(self.conv(y, channels, 3, 1), last=True)
        return self._join(x, y, channels, stride)

    def bottleneck(self, x: Symbolic, channels: int, stride: int) -> Symbolic:
        y = self.relu(self.norm(self.conv(x, channels, 1, 1)))
        y = self.relu(self.norm(self.conv(y, channels, 3, stride)))
        y = self.norm(self.conv(y, channels * EXPANSION, 1, 1), last=True)
        return self._join(x, y, channels * EXPANSION, stride)

    def _join(self, x: Symbolic, y: Symbolic, channels: int, stride: int) -> Symbolic:
        if stride != 1 or x.shape[-1] != channels:
            x = self.norm(self.conv(x, channels, 1, stride))
        return self.relu(keras.layers.Add(dtype=self.policy)([x, y]))
