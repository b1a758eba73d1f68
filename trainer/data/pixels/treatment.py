"""From the bytes of any image file to an image whose pixels every decoder agrees on.

Everything that reads images calls `treat`: `prepare`, training on files in place, `predict`,
`score` and the scoring server. So an image has the same pixels wherever it is used, and a file that
cannot be used is refused everywhere for the same reason. The signature of an exported model, which
has no Pillow, refuses the images that `treat` would change.

JPEGs in RGB or grey and plain 8-bit PNGs are kept unchanged. All others are decoded once and
converted to baseline JPEG: upright by EXIF, opaque on white, in RGB or grey of 8 bits, the first of
several frames. Standard library and Pillow only: the scoring server's image contains this file.
"""

import io
import logging
import multiprocessing
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from math import ceil, floor, isfinite
from operator import and_
from typing import Any, Final, NamedTuple, cast

from PIL import (
    ExifTags,
    Image,
    ImageChops,
    ImageFile,
    ImageMath,
    TiffImagePlugin,
    UnidentifiedImageError,
)

FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
"""Accepted formats, by Pillow's names; each further decoder would be one more to trust."""

MAX_PIXELS: Final = 50_000_000
"""Largest image, in pixels, because a small file can decode to gigabytes."""

QUALITY: Final = 95
"""JPEG quality of converted images; with full colour resolution hardly any loss is visible."""

UNTOUCHED: Final = "copied untouched"
LARGE: Final = 8_000_000
"""Size, in pixels, from which only one process at a time may decode an image, so that the memory of
all processes together stays bounded."""

_KEPT_PROCESSES: Final = {0xC0: UNTOUCHED, 0xC1: UNTOUCHED, 0xC2: "kept: progressive JPEG"}
"""Treatment of JPEGs that every decoder accepts, by the marker that starts their frame: baseline,
extended, progressive. TensorFlow does not decode lossless JPEGs, and not all decoders accept
arithmetic coding."""

_BEGINS: Final = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n"}
_TIFF: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of a TIFF or BigTIFF, in either order of bytes."""
_UNREAD: Final = {
    "HEIC": re.compile(rb".{4}ftyp(hei[cxms]|hev[cxms]|mif1|msf1)", re.DOTALL),
    "AVIF": re.compile(rb".{4}ftypavi[fs]", re.DOTALL),
    "JPEG 2000": re.compile(rb"\0\0\0\x0cjP {2}|\xff\x4f\xff\x51"),
    "JPEG XL": re.compile(rb"\0\0\0\x0cJXL |\xff\x0a"),
}
"""First bytes of images that are common and not read, by their formats."""
BIT_DEPTH: Final = 24
"""Byte offset of a PNG's bit depth: after signature, length, type, width and height."""
_GREY_AND_OPACITY: Final = (16, 4)
"""Bit depth and type of colour of a PNG of which Pillow reads the upper bytes alone."""

TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Transpositions that turn an image upright, by EXIF orientation."""

_BITS: Final = 258
_COMPRESSION: Final = 259
_PHOTOMETRIC: Final = 262
_BANDS: Final = 277
_PLANES: Final = 284
_EXTRA_SAMPLES: Final = 338
_SAMPLE_FORMAT: Final = 339
"""Tags of a TIFF: the bits of a value; the compression; how values are shown, 0 if the smallest is
white; the number of bands, and 2 if they are stored one after the other; the meaning of the bands
after the colours, 0 for no opacity; and the kind of the values."""
_UNSIGNED: Final = 1
_SIGNED: Final = 2
_FRACTIONS: Final = 3
"""Kinds of the values of a TIFF."""
_READ_BANDS: Final = {
    *((_UNSIGNED, bits) for bits in (1, 2, 4, 8, 12, 16, 32)),
    *((_SIGNED, bits) for bits in (8, 16, 32)),
    (_FRACTIONS, 32),
}
"""Kind and bits of values that Pillow reads if there is one band."""
_TRANSPARENCY: Final = "transparency"
"""Key of Pillow's facts of an image with a transparent colour."""

_LEAST_INTEGER: Final = -(1 << 31)
"""Least value of an image in mode I."""

_GREATEST_FRACTION: Final = float.fromhex("0x1.fffffep127")
"""Greatest finite value of an image in mode F."""

_NO_FRAME: Final = (0xC4, 0xC8, 0xCC)
"""Markers in the range of frame markers that do not start a frame."""

_turn = multiprocessing.get_context("fork").Lock()

# Disables Pillow's own limit; `treat` checks its own before anything is decoded.
Image.MAX_IMAGE_PIXELS = None
# It logs as an error that a file has too many bands, which `open_image` says as well.
logging.getLogger(TiffImagePlugin.__name__).setLevel(logging.CRITICAL)


class RejectedError(ValueError):
    """A file that is not a usable image; the message says why, as the end of a sentence. Every
    second part of it may identify something: a name or content of a file, or a decoder's words.
    """

    def __str__(self) -> str:
        return "".join(self.args)


class UnknownFormatError(RejectedError):
    """A file of none of the accepted formats."""


class UnreadFormatError(UnknownFormatError):
    """An image of a kind that is not read; the message says what to convert it to."""


class NoImageError(RejectedError):
    """A file that is not meant to be an image, such as a table or a text."""


class TooManyPixelsError(RejectedError):
    """An image with more pixels than allowed."""


class Levels(NamedTuple):
    """Values of an image of more than 8 bits that become 0 and 255; those beyond are clipped, and
    NaN is 0.
    """

    low: float
    high: float


FULL_LEVELS: Final = Levels(0, 65_535)
"""All values of 16 bits."""
WIDE: Final = 255
"""Difference of levels from which they are integers, because fractions matter little."""
OWN_LEVELS: Final = Levels(0, 0)
"""Stands for levels of each image's own, see `own_levels`; no two values are a range."""


def own_levels(least: float, most: float, *, whole: bool) -> Levels:
    """Return the levels of an image by its own values.

    Args:
        least: Smallest value.
        most: Largest value.
        whole: Whether all values are integers, and none is negative.

    Returns:
        0 and the highest value of the bits that the image uses, at least 8; if values are not
        whole, the smallest and the largest one, rounded if they are `WIDE`.
    """
    if whole:
        return Levels(0, (1 << max(8, int(most).bit_length())) - 1)
    if most - least >= WIDE:
        return Levels(floor(least), ceil(most))
    return levels_between(least, most)


def levels_between(low: float, high: float) -> Levels:
    """Return levels as a record has them: integers where they are whole, and not equal."""
    low, high = (int(value) if value == int(value) else value for value in (low, high))
    return Levels(low, high if low < high else low + 1)


@dataclass(frozen=True)
class Shrink:
    """How images are encoded again and, if they are larger, shrunk."""

    short_side: int
    """Largest short side, in pixels."""
    quality: int
    """JPEG quality."""


@dataclass(frozen=True)
class Encoded:
    """An image that TensorFlow decodes to the pixels that a person sees."""

    data: bytes
    format: str
    """Format: JPEG or PNG."""
    height: int
    width: int
    treatment: str
    """The treatment of the image, in words that a summary counts."""
    narrow: bool = False
    """Whether an image of more than 8 bits uses at most 1/16 of the levels from 0 to 255."""
    orientation: int = 1
    """EXIF orientation of the file, from which the image was turned upright; 1 is upright."""


def treatment_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `treat` that prepare an image as those that a model was trained on.

    Args:
        facts: Content of the model's export.json.
    """
    levels, reencode = facts.get("levels"), facts.get("reencode")
    return {
        "levels": Levels(*levels) if levels else None,
        "shrink": Shrink(*reencode) if reencode else None,
    }


def treat(
    data: bytes,
    max_pixels: int = MAX_PIXELS,
    shrink: Shrink | None = None,
    levels: Levels | None = None,
) -> Encoded:
    """Keep or convert one image.

    Args:
        data: Bytes of the file.
        max_pixels: Most pixels that an image may have.
        shrink: How to encode every image again; None keeps images unchanged where possible.
        levels: How values of more than 8 bits are converted; None is `FULL_LEVELS`, and refuses
            images of 32 bits.

    Raises:
        RejectedError: The file is empty, not an image, is damaged or too large, or its pixels
            cannot be converted to 8 bits; or a TIFF has a band of measurements where an opacity
            would be.
    """
    frame = plain_jpeg(data) if shrink is None and jpeg_ends(data) else None
    if frame:
        # Most images are plain JPEGs, and Pillow would take longer than everything else here.
        _check_size(frame.width, frame.height, max_pixels)
        return Encoded(data, "JPEG", frame.height, frame.width, _KEPT_PROCESSES[frame.process])
    image = open_image(data)
    _check_size(*image.size, max_pixels)
    orientation = _orientation(image, data)
    unchanged = _kept(image, data) if orientation == 1 and shrink is None else None
    if unchanged and image.format == "PNG" and not png_is_whole(data):
        # TensorFlow rejects a PNG that is not whole; Pillow accepts it if only its end is missing.
        unchanged = None
    elif unchanged and image.format != "PNG" and not jpeg_ends(data):
        # Its end is missing, or bytes follow it; decoding shows which.
        _decode(image)
    if unchanged:
        format_ = "PNG" if image.format == "PNG" else "JPEG"
        return Encoded(data, format_, image.height, image.width, unchanged)
    with bounded(image), damage("cannot be converted"):
        words = f"{'encoded again' if shrink else 'converted'}: {_kind(image, data, orientation)}"
        return _convert(image, data, orientation, shrink, levels, words)


def treatment_needed(data: bytes, image: Image.Image) -> str | None:
    """Return what `treat` would convert an image for, such as "JPEG, turned upright", by its
    header; None if it keeps the image.

    Args:
        data: Bytes of the file.
        image: What `open_image` returned for them.

    Raises:
        RejectedError: The header of the image is damaged.
    """
    if plain_jpeg(data):
        return None
    orientation = _orientation(image, data)
    unchanged = orientation == 1 and _kept(image, data)
    return None if unchanged else _kind(image, data, orientation)


def encoding_of(data: bytes) -> str:
    """Return JPEG or PNG, by the first bytes; an empty string for anything else."""
    return next((name for name, begin in _BEGINS.items() if data.startswith(begin)), "")


def open_image(data: bytes, formats: tuple[str, ...] = FORMATS) -> ImageFile.ImageFile:
    """Read the header of an image without decoding pixels.

    Raises:
        UnreadFormatError: The file is an image of a kind that is not read.
        RejectedError: The file is not an image of one of the formats, or its header is damaged.
    """
    if not data:
        raise RejectedError("is empty")
    with damage("has a damaged header"):
        try:
            image = Image.open(io.BytesIO(data), formats=formats)
        except UnidentifiedImageError:
            if encoding_of(data) in formats:
                raise RejectedError("has a damaged header") from None
            if "TIFF" in formats and data.startswith(_TIFF):
                raise UnreadFormatError(_unread_tiff(data)) from None
            for kind, begin in _UNREAD.items():
                if begin.match(data):
                    raise UnreadFormatError(
                        f"is in {kind}, which is not read; convert it to JPEG or PNG"
                    ) from None
            kinds = ", ".join(formats)
            raise UnknownFormatError(f"is not an image of a known kind ({kinds})") from None
    if image.format == "PNG" and not getattr(image, "tile", None):
        raise RejectedError("has no pixels")
    if image.mode == "LAB":
        # Its colours depend on a white point, which the file need not name.
        raise UnreadFormatError("is in CIELAB, which is not read; convert it to RGB")
    return image


def _unread_tiff(data: bytes) -> str:
    """Return why Pillow does not read a TIFF, and how GDAL writes one that it reads.

    Raises:
        Exception: Any, if its directory is damaged.
    """
    file = io.BytesIO(data)
    tags = TiffImagePlugin.ImageFileDirectory_v2(data[: 16 if b"+" in data[:4] else 8])
    file.seek(tags.next)
    tags.load(file)
    bands, (bits, *_) = tags.get(_BANDS, 1), tags[_BITS]
    kind = tags.get(_SAMPLE_FORMAT, (_UNSIGNED,))[0]
    words = f"{bands} band{'s' if bands > 1 else ''} of {bits} bits"
    words += " with fractions" if kind == _FRACTIONS else ""
    rgb = bands < 3 or tags.get(_PHOTOMETRIC) == 2
    words += "" if rgb else " that the file does not call RGB"
    words += ", stored one after the other" if tags.get(_PLANES) == 2 else ""
    known = tags.get(_COMPRESSION, 1) in TiffImagePlugin.COMPRESSION_INFO
    words += "" if known else ", in a compression of its own"
    options = [] if (kind, bits) in _READ_BANDS else ["-ot Float32"]
    if bands > 2 and kind == _UNSIGNED and bits in (8, 16):
        options += ["-b 1 -b 2 -b 3 -co PHOTOMETRIC=RGB -co INTERLEAVE=PIXEL"]
    elif bands > 1:
        options += ["-b 1"]
    command = " ".join(["gdal_translate", *options, "IN.tif OUT.tif"])
    return f"is a TIFF of {words}, which is not read; write another one, for example with {command}"


@contextmanager
def damage(what: str, detail: str = "") -> Iterator[None]:
    """Reject an image if its decoder raises any exception; see `RejectedError` of details."""
    try:
        yield
    except (RejectedError, MemoryError):
        raise
    # On damaged files Pillow may raise any exception of its parsers.
    except Exception as error:
        words = str(error).partition("<_io")[0].strip() or type(error).__name__  # no address
        raise RejectedError(what, f"{detail} ({words})") from error


def bounded(image: Image.Image) -> AbstractContextManager[object]:
    """Return a context that lets only one process at a time decode a large image."""
    return _turn if image.width * image.height > LARGE else nullcontext()


def _check_size(width: int, height: int, most: int) -> None:
    if width * height > most:
        raise TooManyPixelsError(f"has {width} x {height} pixels; at most {most:,} are accepted")


def _orientation(image: Image.Image, data: bytes) -> int:
    """Return the EXIF orientation, 1 if the image is upright or has none."""
    if image.format == "PNG":
        if b"eXIf" not in data:
            return 1
        if "exif" not in image.info:
            # The EXIF chunk is after the pixels, where Pillow looks only while it decodes them.
            _decode(image)
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # noqa: BLE001 - a block that cannot be read has no orientation
        return 1
    return int(orientation) if orientation in TURNS else 1


def _kept(image: Image.Image, data: bytes) -> str | None:
    """Return the treatment of an image that can be kept unchanged; None if it cannot."""
    if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
        return _KEPT_PROCESSES.get(jpeg_process(data))
    plain = image.mode in ("RGB", "L", "P", "1") and _TRANSPARENCY not in image.info
    if image.format == "PNG" and plain and data[BIT_DEPTH] <= 8:
        return "kept: PNG"
    return None


def _kind(image: Image.Image, data: bytes, orientation: int) -> str:
    """Return the original kind of an image that is converted, in words."""
    kind = str(image.format)
    if image.format == "PNG" and data[BIT_DEPTH] > 8:
        kind = "16-bit PNG"
    elif image.mode == "CMYK":
        kind = f"CMYK {kind}"
    elif _is_transparent(image):
        kind += " with transparency"
    if image.format == "TIFF" and 0 in image.tag_v2.get(_EXTRA_SAMPLES, ()):  # type: ignore[attr-defined]
        kind += ", further bands left out"
    if image.format != "MPO" and getattr(image, "is_animated", False):
        kind += ", first of several frames"
    return f"{kind}, turned upright" if orientation != 1 else kind


def _decode(image: Image.Image) -> None:
    with bounded(image), damage("cannot be decoded"):
        image.load()


def _convert(
    image: Image.Image,
    data: bytes,
    orientation: int,
    shrink: Shrink | None,
    levels: Levels | None,
    treatment: str,
) -> Encoded:
    scale = min(1.0, shrink.short_side / min(image.size)) if shrink else 1.0
    size = max(round(image.width * scale), 1), max(round(image.height * scale), 1)
    if scale < 1:
        # A JPEG can be decoded at 1/2, 1/4 or 1/8 of its size at lower cost.
        image.draft(None, size)
    with damage("cannot be decoded"):
        image.load()
    if image.format == "TIFF" and _is_transparent(image):
        _check_opacity(data, image)
    if _kind_and_bits(image) == (_SIGNED, 8) and any(image.histogram()[128:]):
        raise RejectedError(
            "has negative values of 8 bits, which are not read; write 16 bits, for example with"
            " gdal_translate -ot Int16 IN.tif OUT.tif"
        )
    deep = deep_bands(data, image)
    if levels is None and len(deep) > 1 and _TRANSPARENCY in image.info:
        # As in earlier versions, whose data sets are read in place.
        deep = []
    plain = _levelled(image, deep, levels) if deep else _to_8_bits(image)
    narrow = bool(deep) and is_narrow(plain)
    if plain.size != size:
        plain = plain.resize(size, Image.Resampling.BICUBIC)
    # Pillow itself turns a TIFF upright while it decodes.
    if orientation != 1 and image.format != "TIFF":
        plain = plain.transpose(TURNS[orientation])
    # Pillow would write metadata of the source, such as the comment of a GIF.
    plain.info = {}
    buffer, form = io.BytesIO(), "JPEG"
    if shrink:
        plain.save(buffer, "JPEG", quality=shrink.quality)
    elif deep and levels:
        # Without loss, as the levels were chosen to keep what there is.
        plain.save(buffer, "PNG")
        form = "PNG"
    else:
        plain.save(buffer, "JPEG", quality=QUALITY, subsampling="4:4:4")
    encoded = buffer.getvalue()
    return Encoded(encoded, form, plain.height, plain.width, treatment, narrow, orientation)


def deep_bands(data: bytes, image: Image.Image) -> list[Image.Image]:
    """Return the bands of an image of more than 8 bits in mode I or F, without its opacity: grey,
    or red, green, blue. The list is empty if the image has 8 bits. See `is_unsigned`.
    """
    if image.mode in ("I;16", "I;16B", "I;16L"):
        return [image.convert("I")]
    if image.mode in ("I", "F"):
        return [image]
    if image.format == "PNG" and (data[BIT_DEPTH], data[BIT_DEPTH + 1]) == _GREY_AND_OPACITY:
        # The bytes of a pixel, both of its grey value and both of its opacity, read as four bands.
        four = open_image(data)
        four._mode = "RGBA"  # noqa: SLF001
        four.tile = [tile._replace(args="RGBA") for tile in four.tile]
        high, low, *_ = four.split()
        return [_joined(high, low)]
    lower = _lower_bytes(data, image)
    if lower is None:
        return []
    return [
        _joined(high, low) for high, low in zip(image.split()[:3], lower.split()[:3], strict=True)
    ]


def is_unsigned(image: Image.Image) -> bool:
    """Return whether the values of an image are integers of 32 bits without a sign, of which Pillow
    reads those from 2**31 on as negative.
    """
    return _kind_and_bits(image) == (_UNSIGNED, 32)


def _kind_and_bits(image: Image.Image) -> tuple[int, int] | None:
    """Return kind and bits of the values of a TIFF of one band; None for any other image."""
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    bits, kinds = tags.get(_BITS, ()), tags.get(_SAMPLE_FORMAT, (_UNSIGNED,))
    return (kinds[0], bits[0]) if len(bits) == len(kinds) == 1 else None


def _lower_bytes(data: bytes, image: Image.Image) -> Image.Image | None:
    """Return the lower bytes of an image in colour of 16 bits, of which Pillow keeps the upper
    ones; None if the image has 8 bits.
    """
    lower, colours = open_image(data), image.mode in ("RGB", "RGBA")
    tiles = [(tile, _other_bytes(tile.args)) for tile in lower.tile] if colours else []
    if not tiles or not all(other for _, other in tiles):
        return None
    # Told that the bytes are swapped, Pillow keeps the lower 8 of 16 bits.
    lower.tile = [tile._replace(args=other) for tile, other in tiles]
    return lower


def _joined(high: Image.Image, low: Image.Image) -> Image.Image:
    """Return a band of 16 bits, in mode I, from both of its bytes."""
    joined: Image.Image = ImageMath.lambda_eval(
        lambda a: a["convert"](a["high"], "I") * 256 + a["convert"](a["low"], "I"),
        high=high,
        low=low,
    )
    return joined


def _check_opacity(data: bytes, image: Image.Image) -> None:
    """Refuse a TIFF whose last band varies like a measurement: programs for satellite images and
    microscopes write further bands, such as near infrared, where others write an opacity.

    Raises:
        RejectedError: Most pixels would be neither opaque nor invisible.
    """
    opacity = image.split()[-1]
    lower = _lower_bytes(data, image)
    low = lower.split()[-1] if lower else opacity
    opaque = ImageChops.darker(opacity, low).histogram()[255]
    invisible = ImageChops.lighter(opacity, low).histogram()[0]
    pixels = image.width * image.height
    if 2 * (opaque + invisible) < pixels:
        bands = len(image.getbands())
        raise RejectedError(
            f"has {bands} bands, of which the last would be an opacity, but varies like a"
            f" measurement; write a file of the {'three that you want' if bands > 2 else 'first'}"
        )


def _other_bytes(args: Any) -> Any:
    """Return arguments with which a decoder of 16 bits keeps the others; None for 8 bits."""
    mode, more = (args, ()) if isinstance(args, str) else (args[0], args[1:])
    name, _, order = mode.partition(";")
    own = "16L" if sys.byteorder == "little" else "16B"
    other = {"16L": "16B", "16B": "16L"}.get(own if order == "16N" else order)
    if other is None:
        return None
    return f"{name};{other}" if isinstance(args, str) else (f"{name};{other}", *more)


def _levelled(image: Image.Image, bands: list[Image.Image], levels: Levels | None) -> Image.Image:
    """Convert the bands of an image of more than 8 bits to 8 bits."""
    if levels is None and bands[0] is image:
        raise RejectedError(f"has pixels of 32 bits (mode {image.mode}), whose range is unknown")
    below = 0
    if is_unsigned(image) and cast("tuple[int, int]", image.getextrema())[0] < 0:
        # With the highest bit inverted, the order is right, and all values are 2**31 less.
        inverted = ImageMath.lambda_eval(lambda a: a["v"] ^ _LEAST_INTEGER, v=image)
        bands, below = [inverted], -_LEAST_INTEGER
    ends = [value for band in bands for value in _extent(band)]
    least, most = min(ends) + below, max(ends) + below
    if levels == OWN_LEVELS:
        levels = own_levels(least, most, whole=bands[0].mode == "I" and least >= 0)
    low, high = levels or FULL_LEVELS
    scale = 255 / (high - low)
    if bands[0].mode == "I" and max(most - low, low - least) * scale >= -_LEAST_INTEGER:
        # Results are integers of 32 bits as well, so values far from the levels would wrap.
        ends = [floor(low) - below, ceil(high) - below]
        first, last = (min(max(end, _LEAST_INTEGER), ~_LEAST_INTEGER) for end in ends)
        bands = [
            ImageMath.lambda_eval(lambda a: a["max"](a["min"](a["v"], last), first), v=band)
            for band in bands
        ]
    # Half a level is added because the fraction is truncated.
    offset = 0.5 - (low - below) * scale
    plain = [band.point(lambda value: value * scale + offset).convert("L") for band in bands]
    if image.format == "TIFF" and image.tag_v2.get(_PHOTOMETRIC) == 0:  # type: ignore[attr-defined]
        # Pillow inverts such images only if they have 8 bits.
        plain = [ImageChops.invert(band) for band in plain]
    result = Image.merge("RGB", plain) if len(plain) > 1 else plain[0]
    opacity = image.getchannel("A") if image.mode == "RGBA" else None
    if opacity is None and _TRANSPARENCY in image.info:
        opacity = _unlike(bands, image.info[_TRANSPARENCY])
    if opacity is None:
        return result
    above = Image.merge("RGBA", [*(plain * 3)[:3], opacity])
    return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert(result.mode)


def _extent(band: Image.Image) -> tuple[float, float]:
    """Return the least and the greatest finite value of a band in mode I or F.

    Raises:
        RejectedError: It has none.
    """
    least, most = cast("tuple[float, float]", band.getextrema())
    if isfinite(least) and isfinite(most):
        return least, most
    finite = ImageMath.lambda_eval(
        lambda a: a["convert"](255 * (abs(a["v"]) <= _GREATEST_FRACTION), "L"), v=band
    ).convert("1", dither=Image.Dither.NONE)
    if not finite.getbbox():
        raise RejectedError("has no finite value")
    low, high = (
        Image.new("F", band.size, end) for end in (_GREATEST_FRACTION, -_GREATEST_FRACTION)
    )
    for filled in (low, high):
        filled.paste(band, mask=finite)
    return cast("float", low.getextrema()[0]), cast("float", high.getextrema()[1])


def _unlike(bands: list[Image.Image], colour: int | tuple[int, ...]) -> Image.Image:
    """Return the opacity of an image with a transparent grey or colour: 0 where it has this one."""
    wanted = [colour] if isinstance(colour, int) else colour
    opacity: Image.Image = ImageMath.lambda_eval(
        lambda a: a["convert"](
            255 - 255 * reduce(and_, (a[str(n)] == value for n, value in enumerate(wanted))), "L"
        ),
        **{str(n): band for n, band in enumerate(bands)},
    )
    return opacity


def is_narrow(image: Image.Image) -> bool:
    """Return whether an image of 8 bits uses at most 1/16 of its levels."""
    values = [n for band in image.split() for n in cast("tuple[int, int]", band.getextrema())]
    return max(values) - min(values) <= 16


def _is_transparent(image: Image.Image) -> bool:
    return "A" in image.getbands() or "a" in image.getbands() or _TRANSPARENCY in image.info


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Convert to RGB or grey of 8 bits; transparent pixels become white, as on a page."""
    if _is_transparent(image):
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


class Frame(NamedTuple):
    """Contents of the frame header of a JPEG."""

    process: int
    """Coding process, see `jpeg_process`."""
    height: int
    width: int


def plain_jpeg(data: bytes) -> Frame | None:
    """Return the frame header of a plain JPEG: 8 bits, grey or three colours, at most progressive,
    without EXIF or XMP. Return None for any other JPEG, or if anything about it is unusual.
    """
    if not data.startswith(_BEGINS["JPEG"]):
        return None
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
            # EXIF or XMP, which may contain an orientation; or a segment without a length.
            return None
        at += 2 + (data[at + 2] << 8 | data[at + 3])
    return None


def jpeg_process(data: bytes) -> int:
    """Return the marker that starts a JPEG's frame, which is its coding process; 0 without one.

    ITU-T T.81, table B.1: 0xC0 is baseline, 0xC1 extended, 0xC2 progressive, 0xC3 lossless.
    """
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF or marker in (0x00, 0xFF):
            # Padding or meaningless bytes, which all decoders skip.
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            return marker
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0


def jpeg_ends(data: bytes) -> bool:
    """Return whether a JPEG ends with its end marker; other bytes may follow the marker."""
    return data.endswith(b"\xff\xd9")


def png_is_whole(data: bytes) -> bool:
    """Return whether a PNG has all its chunks, and each matches its checksum."""
    view, at = memoryview(data), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(view[at : at + 4], "big")
        if zlib.crc32(view[at + 4 : end]) != int.from_bytes(view[end : end + 4], "big"):
            return False
        if data[at + 4 : at + 8] == b"IEND":
            return True
        at = end + 4
    return False
