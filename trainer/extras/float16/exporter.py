"""A SavedModel whose kernels are float16 in files and in memory, and float32 where they are used.

Half the bytes are to be sent, stored and loaded, and the rounding of kernels is all that changes.
Arithmetic in float16 would be slower on CPUs, most of which have none. Biases and the statistics of
normalizations, a small part, stay float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import tensorflow as tf
import tf_keras as keras

from trainer.export.exported import Exported, of_signature
from trainer.export.layout import SAVED_MODEL
from trainer.export.saved_model import save_model
from trainer.tasks.task import make_task

FOLDER: Final = f"{SAVED_MODEL}_float16"


class HalfModel:
    """A model that is called with kernels from float16 variables."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._places = [
            (layer, name, tf.Variable(tf.cast(value, tf.float16), trainable=False))
            for layer in model.submodules
            for name, value in vars(layer).items()
            if isinstance(value, tf.Variable) and value.dtype == tf.float32 and value.shape.rank > 1
        ]
        replaced = {id(vars(layer)[name]) for layer, name, _ in self._places}
        others = [variable for variable in model.variables if id(variable) not in replaced]
        self.variables = [*(half for _, _, half in self._places), *others]

    def __call__(self, inputs: tf.Tensor, *, training: bool) -> tf.Tensor:
        """Return the logits of normalised images; see `build_model`."""
        with self._halved():
            return self._model(inputs, training=training)

    @contextmanager
    def _halved(self) -> Iterator[None]:
        """While layers are traced, let their attributes be the casts of float16 variables."""
        originals: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for layer, name, half in self._places:
                attributes = vars(layer)
                originals.append((attributes, name, attributes[name]))
                attributes[name] = tf.cast(half, tf.float32)
            yield
        finally:
            for attributes, name, value in originals:
                attributes[name] = value


def export(exported: Exported) -> str:
    """Write the SavedModel; return its size and accuracy in words.

    Raises:
        UserError: It loses too much accuracy.
    """
    folder = exported.folder / FOLDER
    task = make_task(exported.record.config, len(exported.serving.class_names))
    save_model(task, HalfModel(exported.model), folder, exported.serving)
    loaded = tf.saved_model.load(str(folder))
    return exported.check(folder, of_signature(loaded.signatures["pixels"]))
