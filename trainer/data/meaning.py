"""What the numbers of a trained model mean. Standard library only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Meaning:
    """The names of the outputs, and the statistics that inputs are normalised with.

    A run keeps it in its config.json, so that its model can be used without the data set.
    """

    classes: tuple[str, ...]
    """Name of each class, in the order of the outputs."""
    mean: tuple[float, float, float]
    """Of the training images' pixels in red, green and blue, 0 to 255."""
    deviation: tuple[float, float, float]
    """Standard deviation of the same, 0 to 255."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` reads it and JSON can hold it."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "Meaning":
        """Read what `to_dict` gave, also after it was JSON."""
        return Meaning(tuple(data["classes"]), tuple(data["mean"]), tuple(data["deviation"]))
