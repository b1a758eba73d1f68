"""A network in place of a ResNet, which is traced in a tenth of the time."""

import tf_keras as keras

from trainer.config import ModelConfig
from trainer.leaves import TASKS


def small_model(
    config: ModelConfig,
    classes: int,
    precision: str = "float32",
    seed: int = 0,
    task: str = "classification",
    *,
    trial: bool = True,
) -> keras.Model:
    """A convolution with batch norm and a dense layer; arguments as those of `build_model`."""
    assert TASKS[task].per == "image"
    del trial
    policy = keras.mixed_precision.Policy(precision)
    image = keras.Input((config.image_size, config.image_size, 3), name="image")
    init = keras.initializers.GlorotUniform(seed=seed)
    x = keras.layers.Conv2D(8, 3, kernel_initializer=init, dtype=policy, name="conv")(image)
    x = keras.layers.BatchNormalization(momentum=0.9, dtype=policy, name="norm")(x)
    x = keras.layers.Flatten(dtype=policy)(keras.layers.ReLU(dtype=policy)(x))
    init = keras.initializers.GlorotUniform(seed=seed + 1)
    logits = keras.layers.Dense(classes, kernel_initializer=init, dtype="float32", name="logits")(x)
    return keras.Model(image, logits)
