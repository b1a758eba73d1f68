"""The leaves of the trainer, a row each."""

import importlib
from typing import Final

from trainer.leaf import Leaf

_ROWS: Final[tuple[str, ...]] = ("onnx", "parquet", "segmentation", "spark")

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"trainer.{row}.leaf").LEAF for row in _ROWS
)
