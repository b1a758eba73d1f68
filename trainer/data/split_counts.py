"""What the records of a split count up to. Standard library only."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from trainer.data.manifest import SIDES, Shard, Sides, Split


@dataclass
class Tally:
    """Counts over some records of a split; those of parts add up to those of the whole."""

    class_counts: list[int]
    encodings: set[str]
    short: list[int]
    """Images by short side, see `SIDES`."""
    long: list[int]

    @staticmethod
    def empty(classes: int) -> "Tally":
        return Tally([0] * classes, set(), [0] * len(SIDES), [0] * len(SIDES))

    def add(self, label: int, encoding: str, height: int, width: int) -> None:
        """Count one image; its label from 0, its size in pixels."""
        self.class_counts[label] += 1
        self.encodings.add(encoding)
        self.short[bisect_right(SIDES, max(min(height, width), 1)) - 1] += 1
        self.long[bisect_right(SIDES, max(height, width, 1)) - 1] += 1

    def merge(self, other: "Tally") -> None:
        """Add the counts of other records."""
        for own, more in (
            (self.class_counts, other.class_counts),
            (self.short, other.short),
            (self.long, other.long),
        ):
            own[:] = [a + b for a, b in zip(own, more, strict=True)]
        self.encodings |= other.encodings

    def split(self, shards: tuple[Shard, ...]) -> Split:
        """The split that these are all records of."""
        return Split(
            shards,
            tuple(self.class_counts),
            tuple(sorted(self.encodings)),
            Sides(tuple(self.short), tuple(self.long)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` reads it and JSON can hold it."""
        return {**vars(self), "encodings": sorted(self.encodings)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> "Tally":
        """Read what `to_dict` gave."""
        return Tally(**{**data, "encodings": set(data["encodings"])})
