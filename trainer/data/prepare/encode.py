"""From the bytes of any image file to bytes that the reader of shards can take.

JPEGs in RGB or grey and plain 8-bit PNGs are kept to the byte; their pixels are not looked at.
Everything else is decoded once, here, and becomes a baseline JPEG.
"""

import io
import multiprocessing
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from PIL import ExifTags, Image, UnidentifiedImageError

from common.errors import ConfigError
from trainer.data.prepare.rejected import RejectedError, allowed_rejections
from trainer.options import WriteOptions

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
"""What is taken, by Pillow's names; each further decoder would be one more to trust."""

QUALITY = 95
"""JPEG quality of what had to be converted: with full colour resolution hardly any loss is seen."""

UNTOUCHED = "copied untouched"
LARGE = 8_000_000
"""Pixels of an image that only one process at a time may decode, so that the memory of all
processes together stays bounded."""

_KEPT_PROCESSES = {0xC0: UNTOUCHED, 0xC1: UNTOUCHED, 0xC2: "kept: progressive JPEG"}
"""How JPEGs are counted that every decoder takes, by the marker that starts their frame: baseline,
extended, progressive. TensorFlow takes no lossless ones, and not all decoders take arithmetic."""

_BIT_DEPTH = 24
"""Where a PNG says how many bits a sample has: behind its signature, length, type and size."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright, by EXIF's orientation."""

REENCODED_QUALITY = 90
_REENCODE = re.compile(r"([1-9][0-9]{0,4})(?::([1-9][0-9]?|100))?")

_NO_FRAME = (0xC4, 0xC8, 0xCC)
"""Markers among those of frames that start something else."""

_turn = multiprocessing.get_context("fork").Lock()


@dataclass(frozen=True)
class Rules:
    """What becomes of images; the same on every process. Its repr is part of the hash of a data
    set's inputs.
    """

    max_pixels: int
    short_side: int | None = None
    """Larger images are shrunk to this, and all are encoded again; none keeps what can be kept."""
    quality: int = QUALITY
    """Of what is encoded again."""


def make_rules(options: WriteOptions) -> Rules:
    """Read --reencode and --max-rejected.

    Raises:
        ConfigError: with all that cannot be read.
    """
    problems = []
    match = _REENCODE.fullmatch(options.reencode) if options.reencode is not None else None
    if options.reencode is not None and not match:
        problems.append(
            f"--reencode: {options.reencode!r} must be SHORT_SIDE[:QUALITY], such as 292:90"
        )
    try:
        allowed_rejections(options.max_rejected, 0)
    except ValueError as error:
        problems.append(f"--max-rejected: {error}")
    if problems:
        raise ConfigError(problems)
    if not match:
        return Rules(options.max_pixels)
    return Rules(options.max_pixels, int(match[1]), int(match[2] or REENCODED_QUALITY))


# Pillow's own limit is another than --max-pixels, which is checked before anything is decoded.
Image.MAX_IMAGE_PIXELS = None


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
    if rules.short_side is None and data.startswith(b"\xff\xd8\xff") and jpeg_ends(data):
        # Most images are such, and Pillow takes longer than all the rest to say the same.
        frame = plain_jpeg(data)
        if frame:
            _check(name, "JPEG", frame.height, frame.width, rules)
            treatment = _KEPT_PROCESSES[frame.process]
            return Encoded(data, "JPEG", frame.height, frame.width, treatment)
    image = _open(data)
    width, height = image.size
    _check(name, str(image.format), height, width, rules)
    if image.format == "PNG" and not getattr(image, "tile", None):
        raise RejectedError("has no pixels")
    orientation = _orientation(image, data)
    kept = _kept(image, data) if orientation == 1 and rules.short_side is None else None
    if kept and image.format == "PNG" and not png_is_whole(data):
        # TensorFlow does not take it; Pillow does, if only its end is missing.
        kept = None
    elif kept and image.format != "PNG" and not jpeg_ends(data):
        # Something follows its end, or it has none, which is seen by decoding it.
        _decode(image)
    if kept:
        format_ = "PNG" if image.format == "PNG" else "JPEG"
        return Encoded(data, format_, height, width, kept)
    with bounded(image), damage("cannot be converted"):
        treatment = _conversion(image, data, orientation, rules)
        return _convert(image, orientation, rules, treatment)


@contextmanager
def damage(what: str) -> Iterator[None]:
    """Reject an image whatever its decoder raises."""
    try:
        yield
    except (RejectedError, MemoryError):
        raise
    # On damaged files Pillow raises what its parsers happen to stumble over.
    except Exception as error:
        raise RejectedError(f"{what} ({error})") from error


def _open(data: bytes) -> Image.Image:
    """Read the header alone."""
    with damage("has a damaged header"):
        try:
            return Image.open(io.BytesIO(data), formats=FORMATS)
        except UnidentifiedImageError:
            kinds = ", ".join(FORMATS)
            raise RejectedError(f"is not an image of a known kind ({kinds})") from None


@cache
def _extensions() -> dict[str, str]:
    Image.init()
    return Image.registered_extensions()


def _check(name: str, format_: str, height: int, width: int, rules: Rules) -> None:
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - pathlib takes as long as the rest
    if suffix and suffix not in _extensions():
        raise RejectedError(f"holds a {format_}, but {suffix} is no image's extension")
    if width * height > rules.max_pixels:
        raise RejectedError(
            f"has {width} x {height} pixels, more than --max-pixels {rules.max_pixels}"
        )


def _orientation(image: Image.Image, data: bytes) -> int:
    """EXIF's orientation, 1 if the image is upright or does not say."""
    if image.format == "PNG":
        if b"eXIf" not in data:
            return 1
        if "exif" not in image.info:
            # It stands behind the pixels, where Pillow looks only as it decodes them.
            _decode(image)
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # noqa: BLE001 - of a block that cannot be read nothing is known
        return 1
    return int(orientation) if orientation in _TURNS else 1


def _kept(image: Image.Image, data: bytes) -> str | None:
    """How an image is counted that can stay as it is; none if it cannot."""
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        return _KEPT_PROCESSES.get(jpeg_process(data))
    plain = image.mode in ("RGB", "L", "P", "1") and "transparency" not in image.info
    if image.format == "PNG" and plain and data[_BIT_DEPTH] <= 8:
        return "kept: PNG"
    return None


def _conversion(image: Image.Image, data: bytes, orientation: int, rules: Rules) -> str:
    """How an image is counted that is encoded again."""
    kind = str(image.format)
    if image.format == "PNG" and data[_BIT_DEPTH] > 8:
        kind = "16-bit PNG"
    elif image.mode == "CMYK":
        kind = f"CMYK {kind}"
    elif _is_transparent(image):
        kind += " with transparency"
    if image.format != "MPO" and getattr(image, "is_animated", False):
        kind += ", first of several frames"
    if orientation != 1:
        kind += ", turned upright"
    return f"{'converted' if rules.short_side is None else 'encoded again'}: {kind}"


def bounded(image: Image.Image) -> AbstractContextManager[object]:
    """Wait for the only turn at decoding, if an image is large."""
    return _turn if image.width * image.height > LARGE else nullcontext()


def _decode(image: Image.Image) -> None:
    with bounded(image), damage("cannot be decoded"):
        image.load()


def _convert(image: Image.Image, orientation: int, rules: Rules, treatment: str) -> Encoded:
    side = rules.short_side
    scale = min(1.0, side / min(image.size)) if side else 1.0
    size = max(round(image.width * scale), 1), max(round(image.height * scale), 1)
    if scale < 1:
        # A JPEG can be decoded at a half, a quarter or an eighth for less.
        image.draft(None, size)
    with damage("cannot be decoded"):
        image.load()
    plain = _to_8_bits(image)
    if plain.size != size:
        plain = plain.resize(size, Image.Resampling.BICUBIC)
    # Pillow turns a TIFF itself while it decodes.
    if orientation != 1 and image.format != "TIFF":
        plain = plain.transpose(_TURNS[orientation])
    # Pillow would write what came with the pixels, such as the comment of a GIF.
    plain.info = {}
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
        # Half a level more, as what is behind the point is cut off.
        return image.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")
    if image.mode in ("I", "F"):
        raise RejectedError(f"has pixels of 32 bits (mode {image.mode}), whose range is unknown")
    if _is_transparent(image):
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


class Frame(NamedTuple):
    """What the frame of a JPEG says."""

    process: int
    """See `jpeg_process`."""
    height: int
    width: int


def plain_jpeg(data: bytes) -> Frame | None:
    """The frame of a JPEG of 8 bits in grey or three colours, up to progressive ones, that says
    nothing of how it is turned; none if it is another, or anything about it is strange.
    """
    at, frame = 2, None
    while at + 10 <= len(data) and data[at] == 0xFF:
        marker, start = data[at + 1], at + 4
        if marker == 0xDA:
            return frame
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height = data[start + 1] << 8 | data[start + 2]
            width = data[start + 3] << 8 | data[start + 4]
            plain = marker <= 0xC2 and data[start] == 8 and data[start + 5] in (1, 3)
            if frame or not plain or not height or not width:
                return None
            frame = Frame(marker, height, width)
        elif marker == 0xE1 or marker < 0xC0:
            # EXIF or XMP, which may say how to turn it; or something that has no length.
            return None
        at += 2 + (data[at + 2] << 8 | data[at + 3])
    return None


def jpeg_process(data: bytes) -> int:
    """The marker that starts a JPEG's frame and names how it is encoded; 0 if there is none.

    ITU-T T.81, table B.1: 0xC0 is baseline, 0xC1 extended, 0xC2 progressive, 0xC3 lossless.
    """
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF or marker in (0x00, 0xFF):
            # Padding, or bytes without a meaning, which all decoders skip.
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return marker
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


def jpeg_ends(data: bytes) -> bool:
    """Whether the last bytes of a JPEG are its end; behind it there may be anything."""
    return data.endswith(b"\xff\xd9")


def png_is_whole(data: bytes) -> bool:
    """Whether a PNG has all its chunks, and each fits its checksum."""
    view, at = memoryview(data), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(view[at : at + 4], "big")
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            return False
        if data[at + 4 : at + 8] == b"IEND":
            return True
        at = end + 4
    return False
