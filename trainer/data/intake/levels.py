"""The levels of images of more than 8 bits: found in one pass over the data set, or given."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

from common.files import parse_json, write_atomically
from trainer.data.intake.histogram import Histogram
from trainer.data.intake.pages import format_of
from trainer.data.pixels.treatment import (
    OWN_LEVELS,
    WIDE,
    Levels,
    RejectedError,
    damage,
    deep_bands,
    is_unsigned,
    levels_between,
    open_image,
    own_levels,
)
from trainer.data.prepare.encode import UNREAD
from trainer.data.prepare.input_files import FileReader, ImageFile

CHOICES: Final = ("auto", "bits", "window", "percentiles", "full")
SEARCHED: Final = ("auto", "percentiles")
"""Choices for which all files are looked at before any is written."""
_GIVEN: Final = re.compile(r"{0}:{0}".format(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"))
_NEVER_DEEP: Final = (".jpg", ".jpeg", ".jpe", ".gif", ".webp", ".bmp", *UNREAD)
"""Suffixes of files that are not read to find levels, because they cannot have more than 8 bits, or
are rejected."""
_TAIL: Final = 0.005
_SMALL: Final = 1e-12
"""Fraction of the greater of two levels that they differ by at least."""
_STORED: Final = "levels"


def given_levels(text: str) -> Levels | None:
    """Parse `--levels`; return None for a choice that depends on the data set.

    Raises:
        ValueError: It is neither.
    """
    if text in CHOICES:
        return OWN_LEVELS if text == "bits" else None
    match = _GIVEN.fullmatch(text)
    low, high = map(float, match.groups()) if match else (0, 0)
    # At least 255 fractions lie between them, and the quotient of the two is finite.
    if not isfinite(high - low) or high - low < max(abs(low), abs(high), _SMALL) * _SMALL:
        low = high
    if low >= high:
        raise ValueError(f"{text!r} must be LOW:HIGH, such as 0:4095, or {', '.join(CHOICES)}")
    return levels_between(low, high)


@dataclass
class Values:
    """The values that the deep images of a data set use; can be merged."""

    least: float = 0
    most: float = 0
    images: int = 0
    """Number of deep images."""
    whole: bool = True
    """Whether all values are integers, and none is negative."""
    depths: Counter[int] = field(default_factory=Counter)
    """Deep images by the highest bit that they use, 1 for the lowest; 0 counts those whose values
    are not whole, or are negative."""
    histogram: Histogram = field(default_factory=Histogram)
    """For percentiles."""

    def add(self, values: np.ndarray[Any, Any]) -> None:
        """Add an image."""
        finite = values[np.isfinite(values)]
        if not finite.size:
            return
        least, most = float(finite.min()), float(finite.max())
        whole = least >= 0 and bool((finite == np.rint(finite)).all())
        self.depths[int(most).bit_length() if whole else 0] += 1
        self.histogram.add(finite)
        self._join(least, most, 1, whole=whole)

    def add_image(self, data: bytes, image: Image.Image) -> None:
        """Add an image that Pillow reads, if it is deep.

        Args:
            data: Bytes of the file.
            image: What `open_image` returned for them.

        Raises:
            RejectedError: The image cannot be decoded.
        """
        values = deep_values(data, image)
        if values is not None:
            self.add(values)

    def merge(self, other: "Values") -> None:
        """Add the values of other images."""
        if other.images:
            self.depths.update(other.depths)
            self.histogram.merge(other.histogram)
            self._join(other.least, other.most, other.images, whole=other.whole)

    def _join(self, least: float, most: float, images: int, *, whole: bool) -> None:
        self.least = min(self.least, least) if self.images else least
        self.most = max(self.most, most) if self.images else most
        self.images += images
        self.whole &= whole

    def levels(self, choice: str) -> Levels | None:
        """Return the levels of a choice; None if there are no deep images."""
        if not self.images:
            return None
        if choice == "percentiles":
            low, high = self.histogram.range(_TAIL)
            wide = high - low >= WIDE
            return levels_between(*((round(low), round(high)) if wide else (low, high)))
        return own_levels(self.least, self.most, whole=self.whole)


def deep_values(data: bytes, image: Image.Image) -> np.ndarray[Any, Any] | None:
    """Return the values of an image of more than 8 bits, [c, h, w]; None if it has 8 bits.

    Args:
        data: Bytes of the file.
        image: What `open_image` returned for them.

    Raises:
        RejectedError: The image cannot be decoded.
    """
    with damage("cannot be decoded"):
        bands = deep_bands(data, image)
        values = np.stack([np.asarray(band) for band in bands]) if bands else None
        return values.view(np.uint32) if values is not None and is_unsigned(image) else values


def find_values(files: Iterator[ImageFile], reader: FileReader, max_pixels: int) -> Values:
    """Sum up the values of the deep images among some files; unusable ones are left out."""
    total = Values()
    for file in files:
        if os.path.splitext(file.name)[1].lower() in _NEVER_DEEP:  # noqa: PTH122 - speed
            continue
        try:
            _add(total, reader.read(file), file.page, max_pixels)
        except RejectedError:
            continue
    return total


def _add(total: Values, data: bytes, page: int, max_pixels: int) -> None:
    known = format_of(data)
    if known:
        values = known.values(data, page, max_pixels)
        if values is not None:
            total.add(values)
        return
    image = open_image(data)
    if image.width * image.height <= max_pixels:
        total.add_image(data, image)


def stored_levels(parts: Path) -> tuple[Levels | None, dict[int, int]] | None:
    """Return what `store_levels` has stored; None if nothing."""
    try:
        stored = parse_json((parts / _STORED).read_text())
    except (OSError, ValueError):
        return None
    # Earlier versions stored the levels alone.
    known = stored if isinstance(stored, dict) else {"levels": stored, "depths": {}}
    depths = {int(bits): images for bits, images in known["depths"].items()}
    return Levels(*known["levels"]) if known["levels"] else None, depths


def store_levels(parts: Path, levels: Levels | None, depths: Mapping[int, int]) -> None:
    """Store the levels, and how many images use how many bits, with an unfinished data set, so that
    a restart need not find them again.
    """
    write_atomically(parts / _STORED, json.dumps({"levels": levels, "depths": depths}))
