"""Between variables and tensors in host memory."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer.checkpoints.format import Array, Tensors
from trainer.errors import CheckpointError


def stored_name(variable: tf.Variable) -> str:
    """The name of a variable in checkpoints, after the name of the group that it belongs to."""
    return str(variable.name).removesuffix(":0")


def snapshot(variables: Mapping[str, tf.Variable]) -> Tensors:
    """Copies of variables in host memory."""
    return {name: np.array(_look_at(variable)) for name, variable in variables.items()}


def refill(buffers: Tensors, variables: Mapping[str, tf.Variable]) -> None:
    """Make tensors a snapshot of variables, in the memory that they have if it fits.

    The first touch of new memory costs several times the copy.
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
    """A variable's values: on a CPU its own memory, which no copy is made of; of a GPU a copy.

    Not to be kept: that it does not change is promised nowhere, and the next step has to give a
    variable new memory as long as its old one is looked at.
    """
    return np.asarray(variable.value())


def restore(variables: Mapping[str, tf.Variable], tensors: Tensors, origin: Path) -> None:
    """Assign a checkpoint's tensors to variables.

    Raises:
        CheckpointError: names or shapes differ; nothing is assigned then.
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
        raise CheckpointError(f"{origin}: is of another model: {'; '.join(faults + shapes[:3])}")
    for name, variable in variables.items():
        variable.assign(tensors[name])
