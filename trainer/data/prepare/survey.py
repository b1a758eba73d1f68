"""A look at some images before all are written: their statistics, and how large records will be."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

from PIL import Image

from trainer.data.prepare.encode import RejectedError, Rules, bounded, damage, encode
from trainer.data.prepare.entries import Entry
from trainer.data.prepare.read import Reader
from trainer.data.prepare.statistics import PixelSums

IMAGES = 512
"""Images looked at. Their mean is within 2 of 255 of that of all images of a photographic data set
(the spread of photographs' means, about 40, over the root of this)."""


@dataclass
class Survey:
    """What some images add up to."""

    read: int = 0
    """Bytes of their files."""
    written: int = 0
    """Bytes of the same images as they will be stored."""
    pixels: PixelSums = field(default_factory=PixelSums)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Names and reasons of those that are no usable images."""

    def merge(self, other: "Survey") -> None:
        """Add what other images add up to."""
        self.read += other.read
        self.written += other.written
        self.pixels.merge(other.pixels)
        self.rejected += other.rejected

    @property
    def growth(self) -> float:
        """Stored bytes for each byte of a file."""
        return self.written / self.read if self.read else 1.0


def look_at(entries: Iterator[Entry], rules: Rules) -> Survey:
    """Encode some images as they will be, and look at their pixels."""
    survey, reader = Survey(), Reader()
    for entry in entries:
        try:
            encoded = encode(reader.read(entry), entry.name, rules)
            image = Image.open(io.BytesIO(encoded.data))
            with bounded(image), damage("cannot be decoded"):
                survey.pixels.add(image)
        except RejectedError as error:
            survey.rejected.append((entry.name, str(error)))
            continue
        survey.read += entry.size
        survey.written += len(encoded.data)
    return survey
