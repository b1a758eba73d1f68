"""Perceptual hashes of images. NumPy and Pillow alone.

The hash is that of the discrete cosine transform ("pHash", Zauner 2010): an image is shrunk to 32 x
32 levels of grey, and each of its 64 lowest frequencies gives a bit, whether it is above their
median. Scaling, another encoding and small changes of brightness leave nearly all bits.
"""

import io
from typing import Any, Final

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]

BITS: Final = 64
_SIDE: Final = 32
_LOW: Final = 8
_FLAT: Final = 2.0
"""Standard deviation, in levels of grey, below which an image has nothing to compare."""

_FREQUENCIES: Final = np.arange(_LOW)[:, None]
_COSINES: Final = np.cos(np.pi * (2 * np.arange(_SIDE) + 1) * _FREQUENCIES / (2 * _SIDE))
"""The lowest frequencies of a row of pixels."""


def perceptual_hash(encoded: bytes) -> int | None:
    """Return the hash of an image, 64 bits; None if it is of one level, or cannot be decoded."""
    try:
        image = Image.open(io.BytesIO(encoded))
        # A JPEG is decoded to a smaller size, which takes less than half of the work.
        image.draft("L", (2 * _SIDE, 2 * _SIDE))
        grey = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    pixels = np.asarray(grey, np.float64)
    if pixels.std() < _FLAT:
        return None
    waves = (_COSINES @ pixels @ _COSINES.T).ravel()
    return int.from_bytes(np.packbits(waves > np.median(waves)).tobytes())
