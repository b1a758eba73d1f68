"""The digest of a network that was built: of its layers, how they are connected, and its variables.

It does not depend on dtypes, on which variables are trained, or on the functions of Lambda layers,
whose source is in the files of the builder.
"""

import hashlib
import json
from typing import Any, Final

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoints.snapshot import stored_name
from trainer.model.layers import all_layers

_LEFT_OUT: Final = {"dtype", "trainable"}


def graph_digest(model: keras.Model) -> str:
    """Return the SHA-256 of names, kinds, options and inputs of a network's layers, and of names
    and shapes of its variables. Equal builders make equal networks in every process.
    """
    whole = {
        "layers": [
            {
                "name": layer.name,
                "kind": type(layer).__name__,
                "options": _options(layer),
                "inputs": [
                    [before.name for before in tf.nest.flatten(node.inbound_layers)]
                    for node in layer.inbound_nodes
                ],
            }
            for layer in all_layers(model)
        ],
        "variables": [
            [stored_name(variable), variable.shape.as_list()] for variable in model.variables
        ],
    }
    text = json.dumps(whole, sort_keys=True, default=lambda value: type(value).__name__)
    return hashlib.sha256(text.encode()).hexdigest()


def _options(layer: keras.layers.Layer) -> Any:
    if isinstance(layer, keras.Model):
        # Its layers are listed themselves.
        return {}
    try:
        options = layer.get_config()
    except NotImplementedError:
        # A layer with arguments that does not tell them: its class has no `get_config`.
        return {}
    if isinstance(layer, keras.layers.Lambda):
        # The rest is compiled code, with the path of its file.
        options = {"arguments": options["arguments"]}
    return _comparable(options)


def _comparable(options: Any) -> Any:
    """Leave keys out of nested options, such as those of a layer inside of a wrapper."""
    if isinstance(options, dict):
        return {str(k): _comparable(v) for k, v in options.items() if k not in _LEFT_OUT}
    if isinstance(options, list | tuple):
        return [_comparable(value) for value in options]
    return options
