"""Copies between variables and tensors in host memory."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer.checkpoints.format import Array, Tensors
from trainer.errors import CheckpointError


def stored_name(variable: tf.Variable) -> str:
    """Return the name of a variable in checkpoints, without the name of its group."""
    return str(variable.name).removesuffix(":0")


def snapshot(variables: Mapping[str, tf.Variable | Array]) -> Tensors:
    """Return copies of variables or arrays in host memory."""
    return {name: np.array(_look_at(variable)) for name, variable in variables.items()}


def refill(buffers: Tensors, variables: Mapping[str, tf.Variable | Array]) -> None:
    """Copy variables or arrays into tensors, reusing their memory if it fits.

    The first use of new memory costs several times as much as the copy.
    """
    if buffers.keys() != variables.keys():
        buffers.clear()
    for name, variable in variables.items():
        live, buffer = _look_at(variable), buffers.get(name)
        if buffer is not None and (buffer.shape, buffer.dtype) == (live.shape, live.dtype):
            np.copyto(buffer, live)
        else:
            buffers[name] = np.array(live)


def _look_at(variable: tf.Variable | Array) -> Array:
    """Return a variable's values: on a CPU a view of its memory, on a GPU a copy. Return an array
    as it is.

    Do not keep the view: nothing guarantees that it does not change, and while it exists the next
    step must allocate new memory for the variable.
    """
    return variable if isinstance(variable, np.ndarray) else np.asarray(variable.value())


def restore(
    variables: Mapping[str, tf.Variable],
    tensors: Tensors,
    origin: Path,
    others: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """Assign a checkpoint's tensors to variables.

    Args:
        variables: Variables by name.
        tensors: The checkpoint's tensors by name.
        origin: Path that the tensors come from, for errors.
        others: Shapes of the tensors that must be there as well, but belong to no variable.

    Raises:
        CheckpointError: Names or shapes differ; then nothing is assigned.
    """
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    expected |= others or {}
    missing = sorted(expected.keys() - tensors.keys())
    strange = sorted(tensors.keys() - expected.keys())
    shapes = [
        f"{name} {tensors[name].shape} instead of {shape}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    faults = [f"missing {missing[:3]}"] if missing else []
    faults += [f"unknown {strange[:3]}"] if strange else []
    faults += shapes[:3]
    if faults:
        raise CheckpointError(f"{origin}: belongs to another model: {'; '.join(faults)}")
    for name, variable in variables.items():
        variable.assign(tensors[name])
