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


def snapshot(variables: Mapping[str, tf.Variable]) -> Tensors:
    """Return copies of variables in host memory."""
    return {name: np.array(_look_at(variable)) for name, variable in variables.items()}


def refill(buffers: Tensors, variables: Mapping[str, tf.Variable]) -> None:
    """Copy variables into tensors, reusing their memory if it fits.

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


def _look_at(variable: tf.Variable) -> Array:
    """Return a variable's values: on a CPU a view of its memory, on a GPU a copy.

    Do not keep the view: nothing guarantees that it does not change, and while it exists the next
    step must allocate new memory for the variable.
    """
    return np.asarray(variable.value())


def restore(variables: Mapping[str, tf.Variable], tensors: Tensors, origin: Path) -> None:
    """Assign a checkpoint's tensors to variables.

    Raises:
        CheckpointError: Names or shapes differ; then nothing is assigned.
    """
    missing, strange = (
        sorted(variables.keys() - tensors.keys()),
        sorted(tensors.keys() - variables.keys()),
    )
    shapes = [
        f"{name} {tensors[name].shape} instead of {tuple(variable.shape)}"
        for name, variable in variables.items()
        if name in tensors and tensors[name].shape != tuple(variable.shape)
    ]
    if missing or strange or shapes:
        faults = [f"missing {missing[:3]}"] * bool(missing) + [f"unknown {strange[:3]}"] * bool(
            strange
        )
        raise CheckpointError(
            f"{origin}: belongs to another model: {'; '.join(faults + shapes[:3])}"
        )
    for name, variable in variables.items():
        variable.assign(tensors[name])
