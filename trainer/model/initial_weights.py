"""Weights from a file that a training starts from: those of another run, or of another project."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.format import Array, Tensors, not_finite
from trainer.checkpoints.snapshot import stored_name
from trainer.errors import CheckpointError
from trainer.model.torchvision.resnet import arrays_of_this_network

_MODEL = "model/"
"""Beginning of the names of a network's variables in a checkpoint."""


@dataclass(frozen=True)
class _Source:
    """The arrays of a file."""

    layers: tuple[Tensors, ...]
    """Arrays by name, of each layer in the order of the file; all in one if it has no layers."""

    @property
    def arrays(self) -> Tensors:
        return {name: array for layer in self.layers for name, array in layer.items()}


def load_initial_weights(model: keras.Model, file: Path, *, keep_head: bool = False) -> str:
    """Assign the weights of a file to a model that has not been trained.

    The last layer with weights, or each of `model.heads`, keeps its own if the file has none for
    it, or of another shape: it is the part that depends on the data set or the task.

    Args:
        model: Model to change.
        file: state.safetensors of a checkpoint, or safetensors of another project whose names a
            leaf knows; `.h5` of Keras, such as the files of tf_keras.applications, which name
            layers; or `.weights.h5` of tf_keras, which fits only the very same network, the last
            layer included.
        keep_head: Whether the last layer keeps its own weights in any case.

    Returns:
        A sentence about the loaded weights.

    Raises:
        CheckpointError: The file cannot be read, or belongs to another network; names the variable.
    """
    head = [layer for layer in model.layers if layer.weights][-1]
    if file.suffix == ".keras":
        raise CheckpointError(
            f"--model.weights: {file}: version 0.1.0 was the last to read files of Keras 3; write"
            ' this one again with model.save("weights.h5")'
        )
    try:
        if keep_head and file.name.endswith(".weights.h5"):
            raise CheckpointError(
                f"--model.weights: {file} fits only a network whose last layer is whole; give"
                " state.safetensors of a checkpoint, or do not divide the last layer"
            )
        if file.name.endswith(".weights.h5"):
            model.load_weights(str(file))
            _check_finite({stored_name(v): v.numpy() for v in model.variables})
            return f"{file}: initial weights of all layers"
        source = _read_h5(file) if file.suffix in (".h5", ".hdf5") else _read_state(file)
        arrays = _by_name(model, source, head)
        _check_finite(arrays)
    except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"--model.weights: {file} cannot be loaded: {error}") from error
    layers = [model.get_layer(name) for name in getattr(model, "heads", ())] or [head]
    heads = {layer.name: {id(variable) for variable in layer.weights} for layer in layers}
    own = {variable for variables in heads.values() for variable in variables}
    assigned: list[tuple[tf.Variable, Array]] = []
    for variable in model.variables:
        name = stored_name(variable)
        array = arrays.get(name)
        if array is not None and array.shape == tuple(variable.shape):
            assigned.append((variable, array))
        elif id(variable) not in own:
            fault = (
                "is missing"
                if array is None
                else f"has the shape {array.shape} instead of {tuple(variable.shape)}"
            )
            raise CheckpointError(
                f"--model.weights: {file} belongs to another network: {name} {fault}"
            )
    given = {id(variable) for variable, _ in assigned}
    keeping = [name for name, of_it in heads.items() if keep_head or not of_it <= given]
    for variable, array in assigned:
        if not any(id(variable) in heads[name] for name in keeping):
            variable.assign(array)
    differs = "is divided and keeps its own" if keep_head else "differs and keeps its own"
    differs = differs if len(keeping) == 1 else "differ and keep their own"
    unchanged = f"; {', '.join(keeping)} {differs}" if keeping else ""
    left = sorted(arrays.keys() - {stored_name(variable) for variable in model.variables})
    more = f" and {len(left) - 3:,} more" if len(left) > 3 else ""
    unused = f"; without a place in the network: {', '.join(left[:3])}{more}" if left else ""
    return f"{file}: initial weights{unchanged}{unused}"


def _check_finite(arrays: Mapping[str, Array]) -> None:
    problem = not_finite(arrays)
    if problem is not None:
        raise ValueError(problem)


def _read_state(file: Path) -> _Source:
    tensors = safetensors.numpy.load_file(file)
    named = {n.removeprefix(_MODEL): t for n, t in tensors.items() if n.startswith(_MODEL)}
    named = named or arrays_of_this_network(tensors) or {}
    if not named:
        raise ValueError(
            "it contains no tensor of a model; give state.safetensors of a checkpoint, or"
            " safetensors with the names of a project that docs/your-own-model.md lists"
        )
    return _Source((named,))


def _read_h5(file: Path) -> _Source:
    """Read a file of Keras 2, which lists its layers and their weights in order."""
    with h5py.File(file, "r") as content:
        root = content.get("model_weights", content)
        if "layer_names" not in root.attrs:
            raise ValueError("it lists no layers; is it a .weights.h5 with another name?")
        layers = []
        for layer in map(_text, root.attrs["layer_names"]):
            names = [_text(name) for name in root[layer].attrs["weight_names"]]
            layers.append({n.removesuffix(":0"): np.asarray(root[layer][n]) for n in names})
    return _Source(tuple(layers))


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _by_name(model: keras.Model, source: _Source, head: keras.layers.Layer) -> Mapping[str, Array]:
    """Return the file's arrays by the names of the model's variables.

    Layers that Keras has named by number, such as conv2d_94, have another number in each process;
    if names differ, layers are paired in order.
    """
    arrays = source.arrays
    body = [layer for layer in model.layers if layer.weights and layer is not head]
    missing = [v for layer in body for v in layer.weights if stored_name(v) not in arrays]
    # A single group has no order of layers.
    if not missing or len(source.layers) == 1:
        return arrays
    # EfficientNet's own statistics of images are not part of our network.
    stored = [
        part for part in source.layers if part and not next(iter(part)).startswith("normaliz")
    ]
    if len(stored) < len(body):
        return arrays
    return {
        stored_name(variable): array
        for layer, part in zip([*body, head], stored, strict=False)
        for variable, array in zip(layer.weights, part.values(), strict=False)
    }
