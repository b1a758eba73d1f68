"""The leaves of the jobs, a row each."""

import importlib
from typing import Final

from jobs.leaf import Leaf

_ROWS: Final[tuple[str, ...]] = (
    "serving",
    "batch",
    "inspection",
    "sweep",
    "estimate",
    "scaling",
    "commission",
    "pipelines",
)

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"jobs.{row}.leaf").LEAF for row in _ROWS
)
