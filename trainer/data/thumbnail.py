"""Encoded images made small enough for a page."""

import io
import zlib

from PIL import Image

UNDECODABLE = (OSError, ValueError, SyntaxError, zlib.error, Image.DecompressionBombError)
"""What Pillow raises for bytes that are no image; of a PNG that is not one, a SyntaxError."""


def shrink(encoded: bytes, longest: int) -> tuple[tuple[int, int], Image.Image]:
    """Decode an image and shrink it.

    Args:
        encoded: the bytes of a file.
        longest: side that the result does not exceed, in pixels; a smaller image keeps its size.

    Returns:
        Width and height as encoded, and the image, grey or RGB.

    Raises:
        Exception: one of `UNDECODABLE`.
    """
    with Image.open(io.BytesIO(encoded)) as image:
        size = image.size
        image.thumbnail((longest, longest))
        return size, image.copy() if image.mode in ("L", "RGB") else image.convert("RGB")
