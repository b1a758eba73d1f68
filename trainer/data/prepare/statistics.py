"""Mean and standard deviation of pixels, by integer sums: the same in any order, anywhere."""

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from PIL import Image

from trainer.data.manifest import Normalization

SIDE = 128
"""Pixels that each side of a JPEG keeps at least when it is decoded smaller, which is faster."""


@dataclass
class PixelSums:
    """Sums over all pixels of some images; those of parts add up to those of the whole."""

    count: int = 0
    """Pixels."""
    sums: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Of the pixels, 0 to 255, in red, green and blue."""
    squares: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Of the same squared."""

    def add(self, image: Image.Image) -> None:
        """Add the pixels of one image.

        Args:
            image: of a mode that PIL converts to RGB. A JPEG that is not decoded yet is decoded
                smaller, and then has that size.

        Raises:
            OSError: it cannot be decoded.
        """
        image.draft("RGB", (SIDE, SIDE))
        if image.mode == "I;16":
            # The reader takes the upper 8 bits, Pillow's conversion the nearest of 0 to 255.
            image = image.point(lambda value: value * (1 / 256))
        histogram = image.convert("RGB").histogram()
        self.count += image.width * image.height
        for channel in range(3):
            values = histogram[256 * channel : 256 * (channel + 1)]
            self.sums[channel] += sum(value * n for value, n in enumerate(values))
            self.squares[channel] += sum(value * value * n for value, n in enumerate(values))

    def merge(self, other: "PixelSums") -> None:
        """Add the sums of other images."""
        self.count += other.count
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]
        self.squares = [a + b for a, b in zip(self.squares, other.squares, strict=True)]

    def normalization(self) -> Normalization:
        """Mean and standard deviation, to 3 decimals; there must be a pixel.

        A channel that never changes gets the standard deviation 1, as inputs are divided by it.
        """
        n = self.count
        means = [round(total / n, 3) for total in self.sums]
        stds = [
            round(sqrt((n * squares - total * total) / (n * n)), 3) or 1.0
            for total, squares in zip(self.sums, self.squares, strict=True)
        ]
        red, green, blue = zip(means, stds, strict=True)
        return Normalization((red[0], green[0], blue[0]), (red[1], green[1], blue[1]))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` reads it and JSON can hold it."""
        return dict(vars(self))

    @staticmethod
    def from_dict(data: dict[str, Any]) -> "PixelSums":
        """Read what `to_dict` gave."""
        return PixelSums(**data)
