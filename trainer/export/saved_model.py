"""The SavedModel of an export, whose signatures are plain TensorFlow and need none of our code.

The weights are float32 even if the run was trained in mixed precision, and nothing is compiled by
XLA.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf
import tf_keras as keras

from trainer.tasks.task import Serving, Task


def save_model(task: Task, model: keras.Model, folder: Path, serving: Serving) -> None:
    """Write the SavedModel of a task's model."""
    module, signatures = task.serving_module(model, serving)
    with only_errors("tensorflow", "absl"):
        tf.saved_model.save(module, str(folder), signatures=signatures)


@contextmanager
def only_errors(*names: str) -> Iterator[None]:
    """Limit some loggers to errors, because their other messages are about internals."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
