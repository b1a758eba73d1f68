"""The leaves of the trainer, a row each."""

import importlib
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, Final, Self, TypeVar

from trainer.leaf import Leaf

_ROWS: Final[tuple[str, ...]] = (
    "classification",
    "head",
    "stages",
    "averaging",
    "sharded",
    "profiler",
    "mlflow",
    "parquet",
    "onnx",
    "segmentation",
    "spark",
)

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"trainer.{row}.leaf").LEAF for row in _ROWS
)

_KEYS: Final[dict[type, str]] = {leaf.options: leaf.key for leaf in LEAVES if leaf.options}

T = TypeVar("T")


class WithLeaves:
    """Base of a dataclass that has the options of each leaf as a group of its own, after the fields
    that it declares.
    """

    def __init_subclass__(cls) -> None:
        for options, key in _KEYS.items():
            cls.__annotations__[key] = options
            setattr(cls, key, field(default_factory=options))

    def of(self, options: type[T]) -> T:
        """Return the options of a leaf, given their class."""
        found: T = getattr(self, _KEYS[options])
        return found

    def unobserved(self) -> Self:
        """Return the same run without the options of leaves that only observe it."""
        plain = {leaf.key: leaf.options() for leaf in LEAVES if leaf.options and leaf.observer}
        copy: Self = replace(self, **plain)  # type: ignore[type-var]
        return copy


def in_use(config: Any) -> Iterator[Leaf]:
    """Iterate over the leaves of which a `TrainConfig` asks for a feature."""
    return (leaf for leaf in LEAVES if leaf.used(config))
