"""Floating-point operations of a network."""

from math import prod

import tf_keras as keras

from trainer.model.layers import all_layers


def training_flops_per_image(model: keras.Model) -> float:
    """Return the floating-point operations of a forward and backward pass for one image.

    Counts the multiplications and additions of convolutions and dense layers; the backward pass
    costs twice the forward pass (one product for the inputs, one for the weights). Everything else
    counts as 0: other layers, such as attention and normalisation, and layers inside of layers of
    your own classes, because Keras does not know their shapes. A layer that is called several times
    counts once.
    """
    return 3.0 * sum(forward_flops(layer) for layer in all_layers(model))


def forward_flops(layer: keras.layers.Layer) -> float:
    """Return the operations of a layer's forward pass for one image: two for each weight of a
    kernel at each of its places. See `training_flops_per_image` for what counts as 0.
    """
    if isinstance(layer, keras.layers.SeparableConv2D):
        kernels = [layer.depthwise_kernel, layer.pointwise_kernel]
    elif isinstance(layer, keras.layers.DepthwiseConv2D):
        kernels = [layer.depthwise_kernel]
    elif isinstance(layer, keras.layers.Conv2D | keras.layers.Dense | keras.layers.EinsumDense):
        kernels = [layer.kernel]
    else:
        return 0.0
    weights = sum(prod(kernel.shape) for kernel in kernels)
    return 2.0 * float(weights) * _places(layer)


def _places(layer: keras.layers.Layer) -> int:
    """Return how often a layer applies its kernel to an image; 0 if Keras does not know."""
    try:
        inputs, outputs = layer.input_shape, layer.output_shape
    except (AttributeError, RuntimeError):
        return 0
    if isinstance(layer, keras.layers.Conv2DTranspose):
        outputs = inputs
    if isinstance(layer, keras.layers.EinsumDense):
        axes, _, result = layer.equation.replace("...", "").replace("->", ",").split(",")
        sizes = [size for axis, size in zip(axes, inputs, strict=False) if axis in result]
        return prod(sizes[1:])
    if getattr(layer, "data_format", None) == "channels_first":
        return prod(outputs[2:])
    return prod(outputs[1:-1])
