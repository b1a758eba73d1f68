"""The record in a manifest of the intake of its images. Standard library only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self

from common.text import plural

REMOVED: Final = "removed"
KEPT: Final = "kept"
IN_PLACE: Final = "in place"
"""What happened to metadata; in place, the files are not changed, and records have all of it."""


@dataclass(frozen=True)
class Intake:
    """The parts of its files that a data set took over."""

    metadata: Literal["removed", "kept", "in place"] = REMOVED
    found: Mapping[str, int] = field(default_factory=dict)
    """Images by the kind of metadata that was removed, or found in place: see
    `trainer.data.intake.segments`."""
    names: str = "kept"
    """How records are named: kept, hashed or numbered."""
    grouped: bool = False
    """Whether the images of a group are in one split."""
    levels: tuple[float, float] | None = None
    """Values of deep images that became 0 and 255, both 0 if these were each image's own; None if
    no image has more than 8 bits."""
    narrow: int = 0
    """Deep images that use at most 1/16 of the levels from 0 to 255."""

    groups: Mapping[str, int] | None = None
    """Facts of the groups: their number (`count`), the images of the smallest and the largest one
    (`least`, `most`), and how many are in a held-out split (`held_out`, `test`). None if there are
    no groups, or if an earlier version wrote the data set."""
    reencode: tuple[int, int] | None = None
    """Short side, in pixels, to which larger images were shrunk, and the quality of the JPEGs that
    all images became; None if images were kept where possible."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, which `from_dict` reads."""
        plain = asdict(self)
        # Only of data sets that have them, so that the manifests of others stay as they were.
        return {
            key: value
            for key, value in plain.items()
            if value is not None or key not in ("groups", "reencode")
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the data that `to_dict` returns."""
        pairs = {key: tuple(data[key]) for key in ("levels", "reencode") if data.get(key)}
        return cls(**{**data, **pairs})


def groups_in_words(groups: Mapping[str, int]) -> str:
    """Return how many groups there are, and how they are divided."""
    least, most = groups["least"], groups["most"]
    size = f"{least:,} to {most:,} images" if least < most else plural(least, "image")
    test = f", {groups['test']:,} for tests" if groups.get("test") else ""
    return (
        f"{plural(groups['count'], 'group')} ({size}), {groups['held_out']:,} held out{test}, none"
        f" in {'two' if test else 'both'} splits"
    )


def levels_in_words(levels: tuple[float, float]) -> str:
    """Return which values became 0 and 255."""
    low, high = levels
    if low == high:
        return (
            "the values of each image, from 0 to the highest bit that it uses (fractions: from the"
            " least to the greatest), became 0 to 255"
        )
    return f"the values {low} to {high} became 0 to 255"
