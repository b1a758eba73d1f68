"""Images of records: checks of the stored bytes, whatever the record says, and thumbnails. No
TensorFlow.
"""

import io
from typing import Final
from warnings import catch_warnings, simplefilter

from PIL import Image

from trainer.data.example import Record
from trainer.data.pixels.treatment import (
    Levels,
    RejectedError,
    damage,
    encoding_of,
    open_image,
    treat,
)

FORMATS: Final = ("JPEG", "PNG")
"""Formats that the reader decodes."""

MOST_PIXELS: Final = 1 << 29
"""Number of pixels from which TensorFlow refuses to decode an image."""

_PNG_END: Final = b"IEND\xaeB`\x82"


def open_stored(encoded: bytes) -> Image.Image:
    """Read the header of a JPEG or PNG without decoding pixels.

    Raises:
        RejectedError: The image is neither JPEG nor PNG, is damaged, or is too large to decode.
    """
    if not encoding_of(encoded):
        raise RejectedError(f"is neither {' nor '.join(FORMATS)}")
    with catch_warnings():
        simplefilter("ignore")
        image = open_image(encoded, FORMATS)
    width, height = image.size
    if width * height >= MOST_PIXELS:
        raise RejectedError(f"has {width} x {height} pixels, more than can be decoded")
    return image


def record_fault(record: Record, image: Image.Image) -> str | None:
    """Return how a record describes its image wrongly, or None; values may be missing.

    Args:
        record: Record of the image.
        image: Image that `open_stored` returned.
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


def check_decodes(encoded: bytes) -> None:
    """Decode an image completely.

    Raises:
        RejectedError: The image cannot be decoded, or only a part of it.
    """
    image = open_stored(encoded)
    with damage("cannot be decoded"), catch_warnings():
        simplefilter("ignore")
        image.load()
        if encoding_of(encoded) == "PNG":
            # Pillow ignores some checksums; the reader would reject such an image.
            open_stored(encoded).verify()
    if encoding_of(encoded) == "PNG" and _PNG_END not in encoded:
        raise RejectedError("cannot be decoded (the image is truncated)")


def as_used(encoded: bytes, levels: tuple[float, float] | None) -> bytes:
    """Return an image of a file that is not changed as it is used: treated.

    Args:
        encoded: Bytes of the image.
        levels: See `Manifest.levels`.

    Raises:
        RejectedError: The image cannot be decoded.
    """
    return treat(encoded, MOST_PIXELS, levels=Levels(*levels) if levels else None).data


def shrink(
    encoded: bytes, longest: int, levels: tuple[float, float] | None = None
) -> tuple[tuple[int, int], Image.Image]:
    """Decode an image as it is used, and shrink it.

    Args:
        encoded: Bytes of a file.
        longest: Longest side of the result, in pixels; a smaller image keeps its size.
        levels: See `Manifest.levels`.

    Returns:
        Width and height, and the image, grey or RGB.

    Raises:
        RejectedError: The image cannot be decoded.
    """
    with damage("cannot be decoded"), Image.open(io.BytesIO(as_used(encoded, levels))) as image:
        size = image.size
        image.thumbnail((longest, longest))
        plain = image.copy() if image.mode in ("L", "RGB") else image.convert("RGB")
    return size, plain
