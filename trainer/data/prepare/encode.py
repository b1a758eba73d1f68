"""From the bytes of any image file to bytes that the reader of shards can take.

JPEGs in RGB or grey and plain 8-bit PNGs are kept to the byte; only their header is looked at.
Everything else is decoded once, here, and becomes a baseline JPEG.
"""

import io
import multiprocessing
import os
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
"""What is taken, by Pillow's names; each further decoder would be one more to trust."""

QUALITY = 95
"""JPEG quality of what had to be converted: with full colour resolution hardly any loss is seen."""

UNTOUCHED = "copied untouched"
LARGE = 8_000_000
"""Pixels of an image that only one process at a time may decode, so that the memory of all
processes together stays bounded."""

_PNG_END = b"IEND\xaeB`\x82"
_BIT_DEPTH = 24
"""Where a PNG says how many bits a sample has: behind its signature, length, type and size."""

# Pillow's own limit is another than --max-pixels, which is checked before anything is decoded.
Image.MAX_IMAGE_PIXELS = None

_turn = multiprocessing.get_context("fork").Lock()


@dataclass(frozen=True)
class Rules:
    """What becomes of images; the same on every process."""

    max_pixels: int
    short_side: int | None = None
    """Larger images are shrunk to this, and all are encoded again; none keeps what can be kept."""
    quality: int = QUALITY
    """Of what is encoded again."""


@dataclass(frozen=True)
class Encoded:
    """An image that the reader of shards can take."""

    data: bytes
    format: str
    """JPEG or PNG."""
    height: int
    width: int
    treatment: str
    """What was done to it, in words that a summary counts."""


class RejectedError(ValueError):
    """A file that is no usable image; the message says why."""


def encode(data: bytes, name: str, rules: Rules) -> Encoded:
    """Keep or convert one image.

    Args:
        data: the bytes of its file.
        name: its file name, for the extension.
        rules: what becomes of it.

    Raises:
        RejectedError: it is no image, is damaged, too large, or of a kind without a meaning in
            8 bits.
    """
    if not data:
        raise RejectedError("is empty")
    image = _open(data)
    width, height = image.size
    _check_name(name, image)
    if width * height > rules.max_pixels:
        raise RejectedError(
            f"has {width} x {height} pixels, more than --max-pixels {rules.max_pixels}"
        )
    upright = _orientation(image, data) == 1
    kept = _kept(image, data) if upright and rules.short_side is None else None
    # A file that does not end as it should is decoded, to see whether it is all there.
    if kept and not _ends(image, data):
        with _bounded(image):
            _decode(image)
    if kept:
        format_ = "PNG" if image.format == "PNG" else "JPEG"
        return Encoded(data, format_, height, width, kept)
    treatment = _conversion(image, data, upright=upright, shrunk=rules.short_side is not None)
    with _bounded(image):
        return _convert(image, rules, treatment)


def _open(data: bytes) -> Image.Image:
    """Read the header alone."""
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise RejectedError(f"is not an image of a known kind ({', '.join(FORMATS)})") from None
    except (OSError, ValueError, SyntaxError, zlib.error) as error:
        raise RejectedError(f"has a damaged header ({error})") from error


@cache
def _extensions() -> dict[str, str]:
    Image.init()
    return Image.registered_extensions()


def _check_name(name: str, image: Image.Image) -> None:
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - pathlib takes as long as the rest
    if suffix and suffix not in _extensions():
        raise RejectedError(f"holds a {image.format}, but {suffix} is no image's extension")


def _orientation(image: Image.Image, data: bytes) -> int:
    """EXIF's orientation, 1 if the image is upright or does not say."""
    # Pillow would decode the whole PNG to look behind the pixels.
    if image.format == "PNG" and b"eXIf" not in data:
        return 1
    try:
        found = image.getexif().get(ExifTags.Base.Orientation, 1)
    except (OSError, ValueError, SyntaxError, TypeError, KeyError):
        return 1
    return found if found in range(1, 9) else 1


def _kept(image: Image.Image, data: bytes) -> str | None:
    """How an image is counted that can stay as it is; none if it cannot."""
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        return "kept: progressive JPEG" if "progressive" in image.info else UNTOUCHED
    plain = image.mode in ("RGB", "L", "P", "1") and "transparency" not in image.info
    if image.format == "PNG" and plain and data[_BIT_DEPTH] <= 8:
        return "kept: PNG"
    return None


def _ends(image: Image.Image, data: bytes) -> bool:
    if image.format == "PNG":
        return data.endswith(_PNG_END)
    return data.endswith(b"\xff\xd9")


def _conversion(image: Image.Image, data: bytes, *, upright: bool, shrunk: bool) -> str:
    kind = str(image.format)
    if image.format == "PNG" and data[_BIT_DEPTH] > 8:
        kind = "16-bit PNG"
    elif image.mode == "CMYK":
        kind = f"CMYK {kind}"
    elif _is_transparent(image):
        kind += " with transparency"
    if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
        kind += ", first of several frames"
    if not upright:
        kind += ", turned upright"
    return f"{'encoded again' if shrunk else 'converted'}: {kind}"


def _bounded(image: Image.Image) -> AbstractContextManager[object]:
    return _turn if image.width * image.height > LARGE else nullcontext()


def _decode(image: Image.Image) -> None:
    try:
        image.load()
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, zlib.error) as error:
        raise RejectedError(f"cannot be decoded ({error})") from error


def _convert(image: Image.Image, rules: Rules, treatment: str) -> Encoded:
    side = rules.short_side
    scale = min(1.0, side / min(image.size)) if side else 1.0
    if scale < 1:
        # A JPEG can be decoded at a half, a quarter or an eighth for less.
        image.draft(None, (round(image.width * scale), round(image.height * scale)))
        scale = min(1.0, side / min(image.size)) if side else 1.0
    _decode(image)
    plain = _to_8_bits(ImageOps.exif_transpose(image))
    if scale < 1:
        size = (max(round(plain.width * scale), 1), max(round(plain.height * scale), 1))
        plain = plain.resize(size, Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    if side:
        plain.save(buffer, "JPEG", quality=rules.quality)
    else:
        plain.save(buffer, "JPEG", quality=QUALITY, subsampling="4:4:4")
    return Encoded(buffer.getvalue(), "JPEG", plain.height, plain.width, treatment)


def _is_transparent(image: Image.Image) -> bool:
    return "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info


def _to_8_bits(image: Image.Image) -> Image.Image:
    """RGB or grey of 8 bits; what is transparent becomes white, as on a page."""
    if image.mode in ("I;16", "I;16B", "I;16L"):
        return image.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    if image.mode in ("I", "F"):
        raise RejectedError(f"has pixels of 32 bits (mode {image.mode}), whose range is unknown")
    if _is_transparent(image):
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")
