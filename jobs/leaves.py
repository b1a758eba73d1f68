"""The leaves of the jobs, a row each."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs.leaf import Leaf

_ROWS: Final[tuple[str, ...]] = (
    "serving",
    "batch",
    "inspection",
    "sweep",
    "estimate",
    "scaling",
    "pipelines",
    "elastic",
    "evidence",
)

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"jobs.extras.{row}.leaf").LEAF for row in _ROWS
)

if TYPE_CHECKING:

    class SubmitLeaves:
        """Options of `submit` that leaves bring."""
else:
    _OPTIONS = tuple(leaf.placement.options for leaf in LEAVES if leaf.placement)
    SubmitLeaves = dataclass(frozen=True)(type("SubmitLeaves", _OPTIONS, {}))
