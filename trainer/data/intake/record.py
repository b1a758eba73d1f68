"""What a manifest says of the intake of its images. Standard library only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self

REMOVED: Final = "removed"
KEPT: Final = "kept"
IN_PLACE: Final = "in place"
"""What happened to metadata; in place, the files are not changed, and records have all of it."""


@dataclass(frozen=True)
class Intake:
    """What a data set took over of its files."""

    metadata: Literal["removed", "kept", "in place"] = REMOVED
    found: Mapping[str, int] = field(default_factory=dict)
    """Images by the kind of metadata that was removed, or found in place: see
    `trainer.data.intake.segments`."""
    names: str = "kept"
    """How records are named: kept, hashed or numbered."""
    grouped: bool = False
    """Whether the images of a group are in one split."""
    levels: tuple[int, int] | None = None
    """Values of deep images that became 0 and 255; None if no image has more than 8 bits."""
    narrow: int = 0
    """Deep images that use at most 1/16 of the levels from 0 to 255."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, which `from_dict` reads."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_dict` returns."""
        levels = data.get("levels")
        return cls(**{**data, "levels": tuple(levels) if levels else None})
