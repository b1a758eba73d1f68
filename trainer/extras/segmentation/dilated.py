"""Dilated convolutions at full resolution (Yu and Koltun 2016), for small images.

Every layer sees twice as far as the one before without losing a pixel, so it learns small objects
from little data, where a network that halves its resolution needs much more.
"""

from typing import Final

import tf_keras as keras

from trainer.config import ModelConfig
from trainer.model.resnet import Layers

DILATIONS: Final = (1, 1, 2, 2, 4, 4, 2, 1)
"""Dilation of each 3x3 convolution; together they see 35 x 35 pixels."""


def build_dilated(
    config: ModelConfig, outputs: int, precision: str = "float32", seed: int = 0
) -> keras.Model:
    """Build the network.

    Args:
        config: Width and image size; all layers are as wide as the first.
        outputs: Number of classes of a pixel.
        precision: Dtype policy of the convolutions, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.

    Returns:
        A model from normalised images [b, size, size, 3] to float32 logits
        [b, size, size, outputs].
    """
    layers = Layers(precision, seed, config.batch_norm_momentum)
    x = image = keras.Input((config.image_size, config.image_size, 3), name="image")
    for dilation in DILATIONS:
        x = layers.relu(layers.norm(layers.conv(x, config.width, 3, 1, dilation)))
    start = keras.initializers.GlorotUniform(layers.next_seed())
    # Softmax and loss need float32 for accuracy.
    logits = keras.layers.Conv2D(
        outputs, 1, kernel_initializer=start, dtype="float32", name="logits"
    )(x)
    return keras.Model(image, logits, name="dilated")
