"""Networks of tf_keras.applications, from our normalised images to logits."""

import inspect

import tf_keras as keras

from trainer.config import ModelConfig
from trainer.model.layers import all_layers
from trainer.model.reproducible import reproducible
from trainer.networks import find_network


def build_application(
    config: ModelConfig, outputs: int, precision: str, seed: int = 0
) -> keras.Model:
    """Build a network of tf_keras.applications without weights and without its own head.

    Every network gets the same head as our ResNet: the mean over the image, and one dense layer.
    Its own normalisation of images is removed, because images arrive normalised, and its batch
    norms get our momentum: the 0.99 and 0.999 of some would keep the initial statistics for longer
    than a short run lasts.

    Args:
        config: Name of the network and image size.
        outputs: Number of outputs.
        precision: Dtype policy, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.

    Returns:
        A model from normalised images [b, size, size, 3] to float32 logits [b, outputs].
    """
    factory = getattr(keras.applications, str(find_network(config.network)))
    takes = inspect.signature(factory).parameters
    choices = {"include_preprocessing": False} if "include_preprocessing" in takes else {}
    shape = (config.image_size, config.image_size, 3)
    with reproducible(precision, seed):
        body = factory(include_top=False, weights=None, pooling="avg", input_shape=shape, **choices)
        start = keras.initializers.RandomNormal(stddev=0.01, seed=seed)
        # Softmax and loss need float32 for accuracy.
        head = keras.layers.Dense(outputs, kernel_initializer=start, dtype="float32", name="logits")
        model = keras.Model(_after_preprocessing(body), head(body.output), name=body.name)
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = config.batch_norm_momentum
    return model


def _after_preprocessing(body: keras.Model) -> object:
    """Return the tensor of normalised images: the input, or what EfficientNet's own layers, which
    it has no argument to leave out, make of it.
    """
    own = (keras.layers.Rescaling, keras.layers.Normalization)
    first = [layer for layer in body.layers if isinstance(layer, own)]
    return first[-1].output if first else body.input
