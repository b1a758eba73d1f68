"""The levels of images of more than 8 bits: found in one pass over the data set, or given."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, floor
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.files import parse_json, write_atomically
from trainer.data.intake.pages import format_of
from trainer.data.pixels.treatment import Levels, RejectedError, deep_bands, open_image
from trainer.data.prepare.input_files import ImageFile, ImageReader

CHOICES: Final = ("auto", "window", "percentiles", "full")
_GIVEN: Final = re.compile(r"(-?\d{1,9}):(-?\d{1,9})")
_NEVER_DEEP: Final = (".jpg", ".jpeg", ".jpe", ".gif", ".webp", ".bmp")
"""Suffixes of files that are not read to find levels, because they cannot have more than 8 bits."""
_LEAST: Final = -32_768
_BINS: Final = 131_072
"""Least value of the histogram, and its number of values: those of 16 bits, with or without sign,
and what a rescaling makes of them."""
_TAIL: Final = 0.005
_STORED: Final = "levels"


def given_levels(text: str) -> Levels | None:
    """Parse `--levels`; return None for a choice.

    Raises:
        ValueError: It is neither.
    """
    if text in CHOICES:
        return None
    match = _GIVEN.fullmatch(text)
    if not match or int(match[1]) >= int(match[2]):
        raise ValueError(f"{text!r} must be LOW:HIGH, such as 0:4095, or {', '.join(CHOICES)}")
    return Levels(int(match[1]), int(match[2]))


@dataclass
class Values:
    """The values that the deep images of a data set use; can be merged."""

    least: float = 0
    most: float = 0
    images: int = 0
    """Number of deep images."""
    whole: bool = True
    """Whether all values are integers, and none is negative."""
    bins: Any = field(default_factory=lambda: np.zeros(_BINS, np.int64))
    """Histogram, for percentiles."""

    def add(self, values: np.ndarray[Any, Any]) -> None:
        """Add an image."""
        finite = values[np.isfinite(values)]
        if not finite.size:
            return
        least, most = float(finite.min()), float(finite.max())
        whole = least >= 0 and bool((finite == np.rint(finite)).all())
        places = np.clip(np.rint(finite) - _LEAST, 0, _BINS - 1).astype(np.int64)
        self._join(least, most, 1, np.bincount(places.ravel(), minlength=_BINS), whole=whole)

    def merge(self, other: "Values") -> None:
        """Add the values of other images."""
        if other.images:
            self._join(other.least, other.most, other.images, other.bins, whole=other.whole)

    def _join(self, least: float, most: float, images: int, bins: Any, *, whole: bool) -> None:
        self.least = min(self.least, least) if self.images else least
        self.most = max(self.most, most) if self.images else most
        self.images += images
        self.whole &= whole
        self.bins = self.bins + bins

    def levels(self, choice: str) -> Levels | None:
        """Return the levels of a choice; None if there are no deep images."""
        if not self.images:
            return None
        if choice == "percentiles":
            part = np.cumsum(self.bins) / max(int(self.bins.sum()), 1)
            low = int(np.searchsorted(part, _TAIL, "right")) + _LEAST
            high = int(np.searchsorted(part, 1 - _TAIL)) + _LEAST
            return Levels(low, max(high, low + 1))
        if self.whole:
            return Levels(0, (1 << max(8, int(self.most).bit_length())) - 1)
        low = floor(self.least)
        return Levels(low, max(ceil(self.most), low + 1))


def find_values(files: Iterator[ImageFile], reader: ImageReader, max_pixels: int) -> Values:
    """Sum up the values of the deep images among some files; unusable ones are left out."""
    found = Values()
    for file in files:
        if os.path.splitext(file.name)[1].lower() in _NEVER_DEEP:  # noqa: PTH122 - speed
            continue
        try:
            values = _values(reader.read(file), file.page, max_pixels)
        except RejectedError:
            continue
        if values is not None:
            found.add(values)
    return found


def _values(data: bytes, page: int, max_pixels: int) -> np.ndarray[Any, Any] | None:
    known = format_of(data)
    if known:
        return known.values(data, page, max_pixels)
    image = open_image(data)
    if image.width * image.height > max_pixels:
        return None
    try:
        bands = deep_bands(data, image)
        return np.stack([np.asarray(band) for band in bands]) if bands else None
    # On damaged files Pillow may raise any exception of its parsers.
    except Exception as error:
        raise RejectedError("cannot be decoded") from error


def stored_levels(parts: Path) -> tuple[Levels | None] | None:
    """Return what `store_levels` has stored, in a tuple; None if nothing."""
    try:
        levels = parse_json((parts / _STORED).read_text())
    except (OSError, ValueError):
        return None
    return (Levels(*levels) if levels else None,)


def store_levels(parts: Path, levels: Levels | None) -> None:
    """Store the levels with an unfinished data set, so that a restart need not find them again."""
    write_atomically(parts / _STORED, json.dumps(levels))
