"""Properties of an encoded image by its bytes, whatever its record says, and thumbnails. No
TensorFlow.
"""

import io
import struct
import zlib
from warnings import catch_warnings, simplefilter

from PIL import Image

from trainer.data.example import Record

FORMATS = ("JPEG", "PNG")
"""Formats that the reader decodes."""

MAX_PIXELS = 1 << 29
"""Number of pixels from which TensorFlow refuses to decode an image."""

_BEGINS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n"}
_PNG_END = b"IEND\xaeB`\x82"

_FAITHFUL = ("RGB", "L", "P", "1", "I;16")
"""Pillow modes of images that the reader decodes faithfully."""

DECODE_ERRORS = (
    *(OSError, SyntaxError, ValueError, TypeError, IndexError, OverflowError, EOFError),
    *(struct.error, zlib.error),
)
"""Exceptions of Pillow for damaged images, and `BrokenImageError`."""

# Pillow's own limit is lower than the reader's; larger images are rejected by their header.
Image.MAX_IMAGE_PIXELS = None


class BrokenImageError(ValueError):
    """An image that cannot be decoded; the message says why."""


def encoding_of(encoded: bytes) -> str:
    """Return JPEG or PNG, by the first bytes; an empty string for anything else."""
    return next((name for name, begin in _BEGINS.items() if encoded.startswith(begin)), "")


def open_image(encoded: bytes) -> Image.Image:
    """Read the header of a JPEG or PNG without decoding pixels.

    Raises:
        BrokenImageError: The image is neither JPEG nor PNG, is damaged, or is too large to decode.
    """
    if not encoding_of(encoded):
        raise BrokenImageError(f"is neither {' nor '.join(FORMATS)}")
    try:
        with catch_warnings():
            simplefilter("ignore")
            image = Image.open(io.BytesIO(encoded), formats=FORMATS)
    except DECODE_ERRORS as error:
        raise BrokenImageError(f"has a damaged header ({_reason(error)})") from error
    width, height = image.size
    if width * height >= MAX_PIXELS:
        raise BrokenImageError(f"has {width} x {height} pixels, more than can be decoded")
    return image


def record_fault(record: Record, image: Image.Image) -> str | None:
    """Return how a record describes its image wrongly, or None; missing values are no fault.

    Args:
        record: Record of the image.
        image: Image that `open_image` returned.
    """
    encoding, width, height = encoding_of(record.encoded), *image.size
    if record.format.replace("JPG", "JPEG") not in ("", encoding):
        return f"calls its image a {record.format}, but it is a {encoding}"
    if (record.height or height, record.width or width) != (height, width):
        return (
            f"gives its image {record.height} x {record.width} pixels (height x width), but it has"
            f" {height} x {width}"
        )
    return None


def mode_fault(image: Image.Image) -> str | None:
    """Return why the reader does not decode an image faithfully, by its header, or None."""
    if image.mode == "CMYK":
        return "is CMYK, and its colours are read without its colour profile"
    if image.mode not in _FAITHFUL or "transparency" in image.info:
        return "has transparency, which is ignored"
    return None


def check_decodes(encoded: bytes) -> None:
    """Decode an image completely.

    Raises:
        BrokenImageError: The image cannot be decoded, or only a part of it.
    """
    image = open_image(encoded)
    try:
        with catch_warnings():
            simplefilter("ignore")
            image.load()
            if encoding_of(encoded) == "PNG":
                # Pillow ignores some checksums; the reader would reject such an image.
                open_image(encoded).verify()
    except DECODE_ERRORS as error:
        raise BrokenImageError(f"cannot be decoded ({_reason(error)})") from error
    if encoding_of(encoded) == "PNG" and _PNG_END not in encoded:
        raise BrokenImageError("cannot be decoded (the image is truncated)")


def _reason(error: Exception) -> str:
    return str(error).partition("<_io")[0].strip() or type(error).__name__


def shrink(encoded: bytes, longest: int) -> tuple[tuple[int, int], Image.Image]:
    """Decode an image and shrink it.

    Args:
        encoded: Bytes of a file.
        longest: Longest side of the result, in pixels; a smaller image keeps its size.

    Returns:
        Width and height as encoded, and the image, grey or RGB.

    Raises:
        Exception: The image cannot be decoded; one of `DECODE_ERRORS`.
    """
    with Image.open(io.BytesIO(encoded)) as image:
        size = image.size
        image.thumbnail((longest, longest))
        return size, image.copy() if image.mode in ("L", "RGB") else image.convert("RGB")
