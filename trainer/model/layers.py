"""The layers of a network, wherever they are inside one another."""

from collections.abc import Callable, Iterator

import tensorflow as tf
import tf_keras as keras


def all_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Iterate over all layers of a model, also those inside other layers, in a fixed order."""
    yield from model._flatten_layers(include_self=False)  # noqa: SLF001 no public equal with an order


def freeze(
    model: keras.Model, prefixes: tuple[str, ...], still: Callable[[str], bool] = lambda _: False
) -> None:
    """Exclude layers from training; their batch norms then normalise with their moving statistics,
    and do not change them.

    Args:
        model: Model to change.
        prefixes: Beginnings of the names of layers.
        still: Whether a layer of a name is excluded as well.

    Raises:
        ValueError: A prefix begins no layer's name, or nothing is left to train; says which.
    """
    for prefix in prefixes:
        layers = [layer for layer in all_layers(model) if layer.name.startswith(prefix)]
        if not layers:
            names = ", ".join(layer.name for layer in all_layers(model) if layer.weights)
            raise ValueError(f"{prefix!r} begins no layer's name; layers with weights: {names}")
        for layer in layers:
            layer.trainable = False
    for layer in all_layers(model):
        if still(layer.name):
            layer.trainable = False
    if prefixes and not model.trainable_variables:
        raise ValueError(f"{' '.join(prefixes)}: leaves nothing to train")


def moving_statistics(model: keras.Model) -> list[tf.Variable]:
    """Return the variables that a forward pass changes: those of layers that are trained, but by
    assignment instead of gradients, such as batch norm's statistics. Integers, such as the count of
    a `Normalization`, stay as they are: the trial of an own network refuses others.
    """
    still = {
        id(variable)
        for layer in all_layers(model)
        if not layer.trainable
        for variable in layer.variables
    }
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.dtype.is_floating and id(variable) not in still
    ]


def single_value_problem(model: keras.Model, images: int, pieces: int) -> str | None:
    """Return which batch norm would see a single value per channel in training, which it turns into
    its offset whatever the value is; None without one.

    Args:
        model: Network that has been built.
        images: Images of a batch.
        pieces: Micro-batches of a batch, each of which is normalised by itself.
    """
    if images > pieces:
        return None
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            # Not public, but the only shape that layers inside of other layers have.
            places = tf.TensorShape(layer._build_input_shape)[1:-1]  # noqa: SLF001
            if places.num_elements() == 1:
                return (
                    f"--batch-size: {images} in {pieces} part{'s' * (pieces > 1)} of 1 image gives"
                    f" the batch norm {layer.name} one value per channel, so its output would be"
                    f" constant and nothing before it would learn; take at least {2 * pieces}, or a"
                    " larger --model.image-size"
                )
    return None
