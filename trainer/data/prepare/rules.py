"""From texts of the command line to what becomes of images. Pure."""

import re
from fractions import Fraction
from math import floor

from common.errors import ConfigError
from trainer.data.prepare.encode import Rules
from trainer.options import WriteOptions

REENCODED_QUALITY = 90
_REENCODE = re.compile(r"([1-9][0-9]{0,4})(?::([1-9][0-9]?|100))?")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


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


def allowed_rejections(text: str, files: int) -> int:
    """Files that may be rejected of a number of files.

    Args:
        text: a number, or a percentage such as 1%.
        files: all there are.

    Raises:
        ValueError: the text is neither.
    """
    percent = _PERCENT.fullmatch(text)
    # 0.57% of 100,000 are 570, of which a float would make 569.
    if percent and Fraction(percent[1]) <= 100:
        return floor(files * Fraction(percent[1]) / 100)
    if not text.isdecimal():
        raise ValueError(f"{text!r} must be a number of files, or a percentage such as 1%")
    return int(text)
