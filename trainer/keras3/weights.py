"""Weights of Keras 3, `.keras` and `.weights.h5`, by the names of a network's variables.

Keras 3 stores the variables of a layer as `layers/KEY/vars/0`, `1`, ... KEY is the class of the
layer in snake case, numbered within its class in the order of the model's layers: conv2d, conv2d_1,
and so on (keras/src/saving/saving_lib.py). A model inside a model is a KEY with `layers` of its
own. A `.keras` file is a ZIP archive of such a file, `model.weights.h5`, and of config.json, which
has the names of the layers.
"""

import io
import json
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import tf_keras as keras

from trainer.checkpoints.format import Array, Tensors
from trainer.checkpoints.snapshot import stored_name
from trainer.model.layers import all_layers

_WEIGHTS, _CONFIG = "model.weights.h5", "config.json"
_KEY: Final = re.compile(r"(.+?)(?:_(\d+))?")
_Layer = tuple[str, list[Array]]
"""Name of a layer, or its KEY if the file has no names, and its variables in order."""


def weights_of_this_network(file: Path, model: keras.Model) -> Tensors | None:
    """Return the arrays of a file by the names of a network's variables; those that have no place
    in it by a name in the file.

    Layers are paired by their names if the file has those of all layers of a class; otherwise the
    n-th layer of each class with the n-th of that class. The last layer is paired only if the file
    has as many of its class.

    Args:
        file: The file.
        model: The network.

    Returns:
        The arrays; None if Keras 3 has not written the file.

    Raises:
        ValueError: The file has another number of layers of a class than the network.
        OSError: The file cannot be read.
    """
    stored = _read(file)
    if stored is None:
        return None
    wanted: dict[str, list[keras.layers.Layer]] = defaultdict(list)
    for layer in all_layers(model):
        if layer.weights and not isinstance(layer, keras.Model):
            wanted[snake_case(type(layer).__name__)].append(layer)
    head = [layer for layer in model.layers if layer.weights][-1]
    arrays: Tensors = {}
    for kind, found in stored.items():
        layers = wanted.get(kind, [])
        if layers == [head] and len(found) != 1:
            layers = []
        if layers:
            pairs = zip(layers, _in_order(kind, found, layers, head.name), strict=True)
            for layer, (name, weights) in pairs:
                arrays |= _by_variable(layer, name, weights)
        else:
            named = ((f"{name}/{place}", array) for name, weights in found
                     for place, array in enumerate(weights))  # fmt: skip
            arrays |= dict(named)
    return arrays


def _in_order(
    kind: str, found: list[_Layer], layers: list[keras.layers.Layer], head: str
) -> list[_Layer]:
    """Return the layers of a file in the order of those of the network, which are of one kind.

    Raises:
        ValueError: There are more or fewer.
    """
    if len(found) != len(layers):
        raise ValueError(
            f"it has {len(found)} layers of the kind {kind}, and this network {len(layers)}; is it"
            " another network?"
        )
    by_name, names = dict(found), [layer.name for layer in layers]
    if not set(names) - {head} <= by_name.keys():
        return found
    # The last layer often has another name.
    others = [one for one in found if one[0] not in names]
    return [(name, by_name[name]) if name in by_name else others.pop() for name in names]


def _by_variable(layer: keras.layers.Layer, name: str, weights: list[Array]) -> Tensors:
    """Return the arrays of a layer of a file by the names of the variables of one of the network.

    Raises:
        ValueError: There are more or fewer.
    """
    if len(layer.weights) != len(weights):
        raise ValueError(
            f"{name} has {len(weights)} variables, and {layer.name} of this network"
            f" {len(layer.weights)}; is it another network?"
        )
    variables = zip(layer.weights, weights, strict=True)
    return {stored_name(variable): array for variable, array in variables}


def snake_case(name: str) -> str:
    """Return the name of a class as Keras 3 writes it, such as conv2d and batch_normalization."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _read(file: Path) -> Mapping[str, list[_Layer]] | None:
    """Return the layers with variables of a file by their kind, in order; None if Keras 3 has not
    written it.
    """
    names: Mapping[str, str] = {}
    content: Any = file
    if file.suffix == ".keras":
        try:
            with zipfile.ZipFile(file) as archive:
                content = io.BytesIO(archive.read(_WEIGHTS))
                names = _names(json.loads(archive.read(_CONFIG)))
        except (zipfile.BadZipFile, KeyError) as error:
            raise ValueError(f"it is no archive of Keras: {error}") from error
    with h5py.File(content, "r") as stored:
        if not isinstance(stored.get("layers"), h5py.Group):
            return None
        layers: dict[str, list[_Layer]] = defaultdict(list)
        for kind, key, weights in _layers(stored["layers"]):
            layers[kind].append((names.get(key, key), weights))
    return layers


def _layers(group: h5py.Group) -> Iterator[tuple[str, str, list[Array]]]:
    """Yield the layers of a model: kind, KEY and variables. Those of a model inside it come first,
    because a network begins with the one that it is made of.
    """

    def order(key: str) -> tuple[bool, str, int]:
        match = _KEY.fullmatch(key)
        assert match is not None
        return "layers" not in group[key], match[1], int(match[2] or 0)

    for key in sorted(group, key=order):
        within = group[key]
        if "layers" in within:
            yield from _layers(within["layers"])
            continue
        stored = within.get("vars", {})
        weights = [np.asarray(stored[number]) for number in sorted(stored, key=int)]
        if weights:
            yield order(key)[1], key, weights


def _names(config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the names of the layers of a model by their KEYs; of none if models are inside it,
    whose KEYs are the same again.
    """
    layers = config["config"].get("layers", [])
    if any("layers" in layer["config"] for layer in layers):
        return {}
    seen, names = Counter[str](), dict[str, str]()
    for layer in layers:
        kind = snake_case(layer["class_name"])
        number = seen[kind]
        seen[kind] += 1
        names[f"{kind}_{number}" if number else kind] = layer["config"]["name"]
    return names
