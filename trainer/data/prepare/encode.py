"""How `prepare` treats the images that it writes."""

import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from PIL import Image

from common.errors import ConfigError
from trainer.data.intake.pages import formats
from trainer.data.pixels.treatment import (
    QUALITY,
    Encoded,
    Levels,
    NoImageError,
    RejectedError,
    Shrink,
    TooManyPixelsError,
    UnreadFormatError,
    encoding_of,
    open_image,
    treat,
)
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.rejected import allowed_rejections

REENCODED_QUALITY = 90
UNREAD: Final = (
    *(".heic", ".heif", ".hif", ".jxl"),
    *(".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".iiq", ".kdc", ".mrw", ".nef", ".nrw"),
    *(".orf", ".pef", ".raf", ".raw", ".rw2", ".sr2", ".srf", ".srw", ".x3f"),
)
"""Suffixes of images of phones, and of the raw images of cameras, which are not read."""
_REENCODE = re.compile(r"([1-9][0-9]{0,4})(?::([1-9][0-9]?|100))?")


@dataclass(frozen=True)
class Rules:
    """How to treat images; the same in every process. The repr is part of the hash of a data set's
    inputs.
    """

    max_pixels: int
    short_side: int | None = None
    """Short side, in pixels, to which larger images are shrunk; then all images are encoded again.
    None keeps images unchanged where possible."""
    quality: int = QUALITY
    """JPEG quality of images that are encoded again."""


def make_rules(options: WriteOptions) -> Rules:
    """Parse --reencode and --max-rejected.

    Raises:
        ConfigError: A value is invalid; lists all of them.
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


def encode(data: bytes, name: str, rules: Rules, levels: Levels | None = None) -> Encoded:
    """Keep or convert one image; see `treat`.

    Args:
        data: Bytes of the file.
        name: File name, whose extension is checked.
        rules: How to treat the image.
        levels: How values of more than 8 bits are converted.

    Raises:
        RejectedError: See `treat`; or the name is that of another kind of file.
    """
    check_kind(data, name)
    suffix = _suffix(name)
    if suffix and suffix not in (*_extensions(), *UNREAD):
        try:
            kind = open_image(data).format
        except UnreadFormatError:
            raise
        except RejectedError as error:
            raise NoImageError("is not an image, by its name and its content") from error
        raise RejectedError(f"holds a {kind}, but ", suffix, " is not an image's extension")
    shrink = Shrink(rules.short_side, rules.quality) if rules.short_side else None
    try:
        return treat(data, rules.max_pixels, shrink, levels)
    except TooManyPixelsError as error:
        raise RejectedError(f"{error} (--max-pixels)") from error


def check_kind(data: bytes, name: str) -> None:
    """Refuse a file that by its name is an image of a kind that is not read. Raw images of cameras
    are TIFFs as well, of which Pillow would read a small copy.

    Raises:
        RejectedError: It is.
    """
    suffix = _suffix(name)
    if suffix in UNREAD and not encoding_of(data):
        raise RejectedError(
            f"is an image of a kind that is not read ({suffix}); convert it to JPEG or PNG"
        )


def may_be_image(name: str) -> bool:
    """Return whether a file may be an image by its name: its suffix is that of one, or missing."""
    of_formats = (suffix for known in formats() for suffix in known.suffixes)
    return _suffix(name) in ("", *_extensions(), *UNREAD, *of_formats)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - pathlib takes as long as the rest


@cache
def _extensions() -> dict[str, str]:
    Image.init()
    return Image.registered_extensions()
