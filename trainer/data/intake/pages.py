"""The interface of file formats that Pillow cannot read, or of which it reads the first image."""

from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from common.program import load
from trainer.data.pixels.treatment import Levels

BEGIN = 512
"""Bytes at the beginning of a file by which its format is known."""


class PagedFormat(Protocol):
    """A format of files that hold one or more images."""

    name: str
    """Its name, in the words of treatments."""
    suffixes: tuple[str, ...]
    """Suffixes of its files, in lower case; a file without one may be of it as well."""
    metadata: str
    """Kind of metadata that every file of the format has; empty if other ways find them."""

    def holds(self, begin: bytes) -> bool:
        """Return whether a file is of this format, by its first `BEGIN` bytes."""

    def count(self, data: bytes) -> int:
        """Return the number of images in a file.

        Raises:
            RejectedError: The file is damaged.
        """

    def values(self, data: bytes, page: int, max_pixels: int) -> np.ndarray[Any, Any] | None:
        """Return the values of an image of more than 8 bits; None if it has 8 bits.

        Args:
            data: Bytes of the file.
            page: Number of the image, from 0.
            max_pixels: Most pixels that an image may have.

        Raises:
            RejectedError: The image is damaged or too large.
        """

    def single(
        self, data: bytes, page: int, max_pixels: int, levels: Levels | None, *, window: bool
    ) -> bytes:
        """Return an image as a file that `treat` accepts.

        Args:
            data: Bytes of the file.
            page: Number of the image, from 0.
            max_pixels: Most pixels that an image may have.
            levels: Values that become 0 and 255; None is all values that the file can hold.
            window: Whether the values that the file itself names are used instead, if it does.

        Raises:
            RejectedError: The image is damaged or too large.
        """

    def tag(self, data: bytes, name: str) -> str:
        """Return a tag of a file as text; empty if the file has none of this name.

        Raises:
            RejectedError: The file is damaged.
        """


_FORMATS: Final = (
    "trainer.data.medical.dicom:Dicom",
    "trainer.data.medical.tiff_pages:TiffPages",
)


@cache
def formats() -> tuple[PagedFormat, ...]:
    """Return all formats."""
    return tuple(load(path)() for path in _FORMATS)


def format_of(data: bytes) -> PagedFormat | None:
    """Return the format of a file, if it is one of these."""
    begin = data[:BEGIN]
    return next((known for known in formats() if known.holds(begin)), None)
