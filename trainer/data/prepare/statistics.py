"""Statistics of pixels, and the survey of some images before all are written."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt

from PIL import Image

from common.text import without_details
from trainer.data.intake.rules import IntakeRules
from trainer.data.manifest import Normalization
from trainer.data.pixels.treatment import RejectedError, bounded, damage
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.input_files import FileReader, ImageFile

IMAGES = 512
"""Number of images in the survey. Their mean is within 2 (of 255) of that of all images of a
photographic data set: the spread of photographs' means, about 40, over the root of this number."""

SIDE = 128
"""Smallest side, in pixels, of a JPEG that is decoded at reduced size, which is faster."""


@dataclass
class PixelSums:
    """Sums over all pixels of some images, which can be merged."""

    count: int = 0
    """Number of pixels."""
    sums: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Sums of the pixels, 0 to 255, in red, green and blue."""
    squares: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Sums of the squared pixels."""

    def add(self, image: Image.Image) -> None:
        """Add the pixels of one image.

        Args:
            image: Image of a mode that PIL converts to RGB. A JPEG that is not decoded yet is
                decoded at reduced size, and then has that size.

        Raises:
            OSError: The image cannot be decoded.
        """
        image.draft("RGB", (SIDE, SIDE))
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
        """Return mean and standard deviation, to 3 decimals; there must be at least one pixel.

        A constant channel gets the standard deviation 1, because inputs are divided by it.
        """
        n = self.count
        means = [round(total / n, 3) for total in self.sums]
        stds = [
            round(sqrt((n * squares - total * total) / (n * n)), 3) or 1.0
            for total, squares in zip(self.sums, self.squares, strict=True)
        ]
        red, green, blue = zip(means, stds, strict=True)
        return Normalization((red[0], green[0], blue[0]), (red[1], green[1], blue[1]))


@dataclass
class Survey:
    """Sums over some images."""

    read: int = 0
    """Bytes of the images' files."""
    written: int = 0
    """Bytes of the same images as they will be stored."""
    pixels: PixelSums = field(default_factory=PixelSums)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Names and reasons of files that are not usable images."""

    def merge(self, other: "Survey") -> None:
        """Add the sums of other images."""
        self.read += other.read
        self.written += other.written
        self.pixels.merge(other.pixels)
        self.rejected += other.rejected

    @property
    def growth(self) -> float:
        """Stored bytes per byte of a file."""
        return self.written / self.read if self.read else 1.0


def look_at(
    files: Iterator[ImageFile], rules: Rules, reader: FileReader, intake: IntakeRules
) -> Survey:
    """Survey some images: encode them as they will be stored, and sum their pixels."""
    survey = Survey()
    for file in files:
        try:
            data = reader.read(file)
            encoded, _ = intake.encoded(data, file, rules)
            image = Image.open(io.BytesIO(encoded.data))
            with bounded(image), damage("cannot be decoded"):
                survey.pixels.add(image)
        except RejectedError as error:
            reason = intake.naming.reason(str(error), file.name, without_details(error.args))
            survey.rejected.append((file.title, reason))
            continue
        survey.read += file.size
        survey.written += len(encoded.data)
    return survey
