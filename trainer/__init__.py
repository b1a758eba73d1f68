"""Distributed training of image models with TensorFlow and Horovod."""

import importlib

__version__ = "0.2.0"

_CALLS = ("evaluate", "fit", "load")
"""What `trainer.api` offers to programs; imported when it is used."""


def __getattr__(name: str) -> object:
    if name in _CALLS:
        return getattr(importlib.import_module("trainer.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
