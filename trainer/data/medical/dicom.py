"""DICOM files, read by pydicom: NEMA PS3.3 and PS3.5.

The values of a grey image are those of its modality, such as Hounsfield units: stored values after
the rescale slope and intercept. Levels are in these units. What `photometric interpretation` calls
MONOCHROME1 is inverted, so that larger values are brighter in all images. Colours become RGB.

Nothing of the header is written: neither names nor numbers, dates or private tags. Text that is
part of the picture stays in it.
"""

import io
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

from common.errors import UserError
from trainer.data.pixels.treatment import (
    OWN_LEVELS,
    Levels,
    NoImageError,
    RejectedError,
    damage,
    own_levels,
)

_GREY = ("MONOCHROME1", "MONOCHROME2")


class Dicom:
    """See `PagedFormat`."""

    name = "DICOM"
    suffixes = (".dcm", ".dicom", ".ima")
    metadata = "header of DICOM"

    def holds(self, begin: bytes) -> bool:
        """See `PagedFormat.holds`: "DICM" after a preamble of 128 bytes."""
        return begin[128:132] == b"DICM"

    def count(self, data: bytes) -> int:
        """See `PagedFormat.count`: the number of frames."""
        with damage("has a damaged header"):
            return max(int(_read(data).get("NumberOfFrames", 1) or 1), 1)

    def values(self, data: bytes, page: int, max_pixels: int) -> np.ndarray[Any, Any] | None:
        """See `PagedFormat.values`."""
        header = _of_frame(_checked(data, max_pixels), page)
        if int(header.BitsAllocated) <= 8 and "RescaleSlope" not in header:
            return None
        values = _values(header, page)
        # Colours have a range of their own, see `_to_8_bits`.
        return values if values.ndim == 2 else None

    def single(
        self, data: bytes, page: int, max_pixels: int, levels: Levels | None, *, window: bool
    ) -> bytes:
        """See `PagedFormat.single`: a PNG."""
        header = _of_frame(_checked(data, max_pixels), page)
        values = _values(header, page)
        with damage("cannot be converted"):
            plain = _to_8_bits(header, values, levels, window=window)
            if header.PhotometricInterpretation == "MONOCHROME1":
                plain = 255 - plain
            buffer = io.BytesIO()
            Image.fromarray(plain).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    def tag(self, data: bytes, name: str) -> str:
        """See `PagedFormat.tag`: by its keyword, such as PatientID."""
        with damage("has a damaged header"):
            return str(_read(data).get(name, ""))


def _pydicom() -> Any:
    """Import pydicom.

    Raises:
        UserError: It is not installed.
    """
    if find_spec("pydicom") is None:
        raise UserError(
            "DICOM files need pydicom, which the images of jobs do not have: prepare them where"
            " `make setup` has run"
        )
    import pydicom  # noqa: PLC0415 - not in the images of jobs

    return pydicom


@lru_cache(1)
def _read(data: bytes) -> Any:
    """Return the header, with pixels that are not decoded yet; remembered for all its frames."""
    # Text that breaks the rules of its tag is not used, and warnings would quote it.
    config = _pydicom().config
    config.settings.reading_validation_mode = config.IGNORE
    return _pydicom().dcmread(io.BytesIO(data))


def _checked(data: bytes, max_pixels: int) -> Any:
    with damage("has a damaged header"):
        header = _read(data)
        if "DirectoryRecordSequence" in header:
            raise NoImageError("is a directory of DICOM files, not an image")
        if "PixelData" not in header:
            raise RejectedError("has no pixels")
        width, height = int(header.Columns), int(header.Rows)
        if not 0 < width * height <= max_pixels:
            raise RejectedError(
                f"has {width} x {height} pixels; at most {max_pixels:,} are accepted"
            )
        return header


def _of_frame(header: Any, page: int) -> Any:
    """Return a header whose rescaling and window are those of a frame.

    Files of several frames, such as Enhanced CT and MR, have them in functional groups: a group of
    the frame, or one that all frames share (PS3.3, C.7.6.16.2.9 and C.7.6.16.2.10).

    Raises:
        RejectedError: A group is damaged, or has a transformation that is not supported.
    """
    with damage("has damaged functional groups"):
        frames = header.get("PerFrameFunctionalGroupsSequence") or ()
        shared = header.get("SharedFunctionalGroupsSequence") or ()
        groups = [*shared[:1], *frames[page : page + 1]]
        elements = {
            element.keyword: element
            for group in groups
            for name in ("PixelValueTransformationSequence", "FrameVOILUTSequence")
            for item in (group.get(name) or ())[:1]
            for element in item
        }
        if not elements:
            return header
        if "ModalityLUTSequence" in header and "RescaleSlope" in elements:
            raise RejectedError("has both a table and a slope for the values of a frame")
        own = _pydicom().Dataset()
        own.update(header)
        own.file_meta = header.file_meta
        for element in elements.values():
            own[element.tag] = element
        return own


def _values(header: Any, page: int) -> np.ndarray[Any, Any]:
    """Return the values of a frame: grey in units of its modality, [h, w], or RGB, [h, w, 3].

    Raises:
        RejectedError: They cannot be decoded.
    """
    pixels = _pydicom().pixels
    _check_compression(header)
    with damage("cannot be decoded"):
        stored = pixels.pixel_array(header, index=page)
        if header.PhotometricInterpretation == "PALETTE COLOR":
            return np.asarray(pixels.apply_color_lut(stored, header))
        if stored.ndim == 2 and header.PhotometricInterpretation not in _GREY:
            raise RejectedError("has a photometric interpretation that is not supported")
        return np.asarray(pixels.apply_modality_lut(stored, header) if stored.ndim == 2 else stored)


def _check_compression(header: Any) -> None:
    """Check that a decoder for a file is installed: pydicom's plug-ins are those for uncompressed
    pixels and RLE, and Pillow's for JPEG of 8 bits and JPEG 2000.

    Raises:
        RejectedError: None is.
    """
    with damage("has a damaged header"):
        syntax = header.file_meta.TransferSyntaxUID
        try:
            available = _pydicom().pixels.get_decoder(syntax).is_available
            words = f"as {syntax.name}"
        except NotImplementedError:
            # Not quoted, because it is text of the file.
            available, words = False, "in an unknown way"
    if not available:
        raise RejectedError(
            f"is compressed {words}, for which no decoder is installed; decompress it before, for"
            " example by gdcmconv --raw"
        )


def _to_8_bits(
    header: Any, values: np.ndarray[Any, Any], levels: Levels | None, *, window: bool
) -> np.ndarray[Any, Any]:
    """Return values as 0 to 255, uint8 of the same shape."""
    grey, bits = values.ndim == 2, int(header.BitsStored)
    named = grey and window and ("WindowCenter" in header or "VOILUTSequence" in header)
    if values.dtype == np.uint8 and not named:
        if not grey or bits >= 8 or "ModalityLUTSequence" in header:
            return values
        low, high = _range(header)
    elif not grey:
        low, high = 0.0, float((1 << bits) - 1)
        if header.PhotometricInterpretation == "PALETTE COLOR":
            # The entries of a palette of 16 bits use all of them.
            high = 65_535.0
    elif named:
        # In units of the output, which spans the range that the stored bits allow.
        values = np.asarray(_pydicom().pixels.apply_voi_lut(values, header, index=0))
        low, high = _ends(header) if "VOILUTSequence" not in header else _extent(values)
    elif levels == OWN_LEVELS:
        whole = bool(values.min() >= 0 and (values == np.rint(values)).all())
        low, high = own_levels(float(values.min()), float(values.max()), whole=whole)
    elif levels is not None:
        low, high = levels
    else:
        low, high = _range(header)
    scaled = (values.astype(np.float64) - low) * (255 / (high - low)) + 0.5
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _range(header: Any) -> tuple[float, float]:
    """Return the lowest and the highest value that the stored bits can hold, after rescaling."""
    low, high = sorted(_ends(header))
    return low, high


def _ends(header: Any) -> tuple[float, float]:
    """Return the values after rescaling of the lowest and the highest stored one; pydicom gives
    them to the pixels below and above a window, although a negative slope inverts their order.
    """
    bits, signed = int(header.BitsStored), int(header.get("PixelRepresentation", 0))
    least = -(1 << bits - 1) if signed else 0
    slope, intercept = (
        float(header.get(key, default) or default)
        for key, default in (("RescaleSlope", 1), ("RescaleIntercept", 0))
    )
    return least * slope + intercept, (least + (1 << bits) - 1) * slope + intercept


def _extent(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return low, max(high, low + 1)
