"""The signature `pixels` of an exported model as ONNX, compared with the SavedModel.

ONNX has no portable way to decode an image, so the input of the model is cropped pixels; it returns
the probabilities of all classes.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx

from common.errors import UserError
from trainer.export.exported import Exported, Probabilities
from trainer.export.layout import SAVED_MODEL
from trainer.export.saved_model import only_errors
from trainer.extras.onnx.quantize import BATCHES, quantize
from trainer.tasks.task import Array

FILE, INT8_FILE = "model.onnx", "model-int8.onnx"
OPSET = 17
TOLERANCE = 1e-5
"""Largest accepted difference in a probability from the SavedModel."""
_BATCHES = (1, 4)
"""Batch sizes of the random images on which the models are compared."""


def export(exported: Exported) -> str:
    """Write the models that the options ask for; return how they differ.

    Raises:
        UserError: A model differs too much from the SavedModel.
    """
    target = exported.folder / FILE
    difference = write_onnx(exported.folder / SAVED_MODEL, target)
    words = [f"{FILE} differs by at most {difference:.2g} in a probability"]
    if exported.options.int8:
        small = exported.folder / INT8_FILE
        quantize(target, small, exported.validation.training_pixels(BATCHES))
        words.append(exported.check(small, probabilities_of(small)))
    if not exported.options.onnx:
        target.unlink()
        del words[0]
    return "; ".join(words)


def probabilities_of(file: Path, threads: int = 0) -> Probabilities:
    """Load a model for CPUs; 0 threads are as many as there are cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])

    def probabilities(pixels: Array) -> Array:
        (predicted,) = session.run(["probabilities"], {"pixels": pixels})
        return np.asarray(predicted)

    return probabilities


def write_onnx(saved_model: Path, target: Path) -> float:
    """Convert a SavedModel's signature `pixels` to ONNX and compare both.

    Args:
        saved_model: Folder of the SavedModel.
        target: File to write.

    Returns:
        The largest difference in a probability.

    Raises:
        UserError: The models differ by more than `TOLERANCE`.
    """
    # Keep the model, because its signature alone would not keep the weights alive.
    exported = tf.saved_model.load(str(saved_model))
    signature = exported.signatures["pixels"]
    inputs = signature.structured_input_signature[1]
    specs = [inputs["pixels"], *(inputs[name] for name in inputs if name != "pixels")]

    def named(*values: tf.Tensor) -> Any:
        return signature(**{spec.name: value for spec, value in zip(specs, values, strict=True)})

    function = tf.function(named, specs, autograph=False)
    with only_errors("tensorflow", "tf2onnx"), _silent_stderr():
        tf2onnx.convert.from_function(function, specs, opset=OPSET, output_path=str(target))
    return _compare(target, signature, specs)


def _compare(file: Path, signature: Any, specs: Sequence[tf.TensorSpec]) -> float:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    noise, largest = np.random.default_rng(0), 0.0
    for size in _BATCHES:
        # Other inputs are thresholds.
        inputs = {spec.name: np.full(spec.shape, 0.5, np.float32) for spec in specs[1:]}
        inputs["pixels"] = noise.integers(0, 256, (size, *specs[0].shape[1:]), np.uint8)
        expected = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        expected = expected["probabilities"].numpy()
        (probabilities,) = session.run(["probabilities"], inputs)
        difference = float(np.abs(probabilities - expected).max())
        # Written so that NaN fails as well.
        if not difference <= TOLERANCE:
            raise UserError(
                f"{file.name}: differs by {difference:.2g} in a probability from the SavedModel,"
                f" more than {TOLERANCE:g}; nothing was exported. Export without --onnx"
            )
        largest = max(largest, difference)
    return largest


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Capture what C++ code writes to stderr, and print it only after a failure."""
    sys.stderr.flush()
    real = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        except BaseException:
            captured.seek(0)
            os.write(real, captured.read())
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)
