"""A U-Net (Ronneberger et al. 2015) whose contracting path is a ResNet.

Each step of the expanding path enlarges its input to the size of the previous stage, joins that
stage's output and applies two 3x3 convolutions. The initialisation is that of the ResNet.
"""

import tf_keras as keras

from trainer.config import ModelConfig
from trainer.model.resnet import Layers, encode


def build_unet(
    config: ModelConfig, outputs: int, precision: str = "float32", seed: int = 0
) -> keras.Model:
    """Build the network.

    Args:
        config: Depth, width, stem and image size of the ResNet.
        outputs: Number of classes of a pixel.
        precision: Dtype policy of the convolutions, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.

    Returns:
        A model from normalised images [b, size, size, 3] to float32 logits
        [b, size, size, outputs].
    """
    layers = Layers(precision, seed, config.batch_norm_momentum)
    size = config.image_size
    image = keras.Input((size, size, 3), name="image")
    *skips, x = encode(image, config, layers)
    # The stem and the first stage have the same width.
    for stage, skip in reversed(list(enumerate(skips))):
        channels = config.width * 2 ** max(stage - 1, 0)
        x = layers.resized(x, *skip.shape[1:3])
        x = keras.layers.Concatenate(dtype=layers.policy)([x, skip])
        for _ in range(2):
            x = layers.relu(layers.norm(layers.conv(x, channels, 3, 1)))
    x = layers.resized(x, size, size)
    start = keras.initializers.RandomNormal(stddev=0.01, seed=layers.next_seed())
    # Softmax and loss need float32 for accuracy.
    logits = keras.layers.Conv2D(
        outputs, 1, kernel_initializer=start, dtype="float32", name="logits"
    )(x)
    return keras.Model(image, logits, name=f"unet{config.depth}")
