"""Tell in a graph by the header of an encoded image whether `treat` would change it.

TensorFlow neither turns an image by its EXIF orientation nor draws transparency on white. So the
signature of an exported model refuses such images, and files that are trained on in place have them
treated with Pillow while they are read.
"""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from trainer.data.pixels.treatment import MAX_PIXELS

TURNED: Final = "turned by its EXIF orientation"
UNUSUAL: Final = "in CMYK, or lossless"
DEPTH: Final = "of 16 bits"
TRANSPARENT: Final = "transparent"
STRANGE: Final = "neither JPEG nor PNG"
TOO_LARGE: Final = f"of more than {MAX_PIXELS:,} pixels"

_ORIENTATION: Final = 0x112
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_MARKS: Final = r"\C*(Exif\x00\x00|tiff:Orientation|eXIf|tRNS)\C*"
"""Bytes that an image contains, somewhere, if it is turned or has a transparent colour."""
_XMP: Final = r'\C*?tiff:Orientation(="|>)[2-8]\C*'
"""An orientation in XMP, where Pillow looks if EXIF has none."""


def reasons_for_treatment(images: tf.Tensor) -> tf.Tensor:
    """Return `reason_for_treatment` of each image of a batch, at less cost: one operation for the
    whole batch finds those that may need treatment, and only their headers are read in steps.

    Args:
        images: Encoded images, string [b].

    Returns:
        string [b].

    Raises:
        tensorflow.errors.InvalidArgumentError: A JPEG is damaged or lossless.
    """
    begin = tf.io.decode_raw(tf.strings.substr(images, 0, 26), tf.uint8, fixed_length=26)
    png = tf.reduce_all(begin[:, :8] == tf.constant(list(_PNG), tf.uint8), 1)
    sides = tf.cast(begin[:, 16:24], tf.int64) * ([1 << 24, 1 << 16, 1 << 8, 1] * 2)
    pixels = tf.reduce_sum(sides[:, :4], 1) * tf.reduce_sum(sides[:, 4:], 1)
    marked = tf.strings.regex_full_match(images, _MARKS)
    unchanged = png & ~marked & (begin[:, 24] <= 8) & (begin[:, 25] < 4) & (pixels <= MAX_PIXELS)
    unchanged &= pixels > 0
    rest = tf.where(~unchanged)
    reasons = tf.map_fn(
        lambda number: _reason(images[number], png[number] | marked[number]),
        rest[:, 0],
        fn_output_signature=tf.string,
    )
    return tf.scatter_nd(rest, reasons, tf.shape(images, tf.int64))


def _reason(encoded: tf.Tensor, marked: tf.Tensor) -> tf.Tensor:
    def plain() -> tf.Tensor:
        shape = tf.io.extract_jpeg_shape(encoded)
        return _first(
            (_product(shape[0], shape[1]) > MAX_PIXELS, TOO_LARGE), (shape[2] == 4, UNUSUAL)
        )

    jpeg = tf.strings.substr(encoded, 0, 3) == b"\xff\xd8\xff"
    return tf.cond(jpeg & ~marked, plain, lambda: reason_for_treatment(encoded))


def reason_for_treatment(encoded: tf.Tensor) -> tf.Tensor:
    """Return why `treat` would change or refuse an image, by its header; empty if it keeps it.

    Args:
        encoded: Encoded image, a string scalar.

    Returns:
        A string scalar, such as `TURNED`. Damage is found only when the image is decoded.
    """
    begin = tf.strings.substr(encoded, 0, len(_PNG))
    return tf.case(
        [
            (tf.strings.substr(begin, 0, 3) == b"\xff\xd8\xff", lambda: _of_jpeg(encoded)),
            (begin == _PNG, lambda: _of_png(encoded)),
        ],
        lambda: tf.constant(STRANGE),
    )


def treated(encoded: tf.Tensor, treat: Callable[[bytes], bytes]) -> tf.Tensor:
    """Return an image as it is treated, which is done only if that would change it.

    Args:
        encoded: Encoded image, a string scalar.
        treat: Returns the treated image.
    """

    def of_value(data: Any) -> bytes:
        # Bytes in a graph; outside of one an array without a dimension.
        return treat(data if isinstance(data, bytes) else data.item())

    def with_pillow() -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(of_value, [encoded], tf.string), [])

    return tf.cond(reason_for_treatment(encoded) == "", lambda: encoded, with_pillow)


def _of_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    """Read the segments up to the pixels: of these, the frame, EXIF and XMP matter."""
    end = tf.strings.length(encoded) - 10

    def segment(
        at: tf.Tensor, frame: tf.Tensor, exif: tf.Tensor, xmp: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        # In one operation each, because a graph takes about as long for any.
        words = tf.io.decode_raw(tf.strings.substr(encoded, at, 4), tf.uint16, little_endian=False)
        marker, size = tf.unstack(tf.cast(words, tf.int32), 2)
        # 0xC0 to 0xCF, without the tables of 0xC4, 0xC8 and 0xCC.
        is_frame = (marker // 16 == 0xFFC) & ((marker % 4 > 0) | (marker == 0xFFC0))
        frame = tf.where(is_frame, at, frame)
        kind = tf.where(marker == 0xFFE1, tf.strings.substr(encoded, at + 4, 6), "")
        exif = tf.where((kind == b"Exif\0\0") & (exif == 0), at + 10, exif)
        xmp = tf.where(kind == b"http:/", at + 4, xmp)
        # Padding and meaningless bytes are skipped, as by all decoders.
        after = tf.where((marker > 0xFF00) & (marker < 0xFFFF), at + 2 + size, at + 1)
        return tf.where(marker == 0xFFDA, end, after), frame, exif, xmp

    zero = tf.constant(0)
    _, frame, exif, xmp = tf.while_loop(
        lambda at, *_: at < end, segment, [tf.constant(2), zero, zero, zero]
    )

    def turned() -> tf.Tensor:
        orientation = _orientation(encoded, exif)
        by_xmp = tf.strings.regex_full_match(tf.strings.substr(encoded, xmp, 1 << 16), _XMP)
        return tf.where(orientation < 0, (xmp > 0) & by_xmp, _is_turn(orientation))

    # The marker, the size of the segment, precision, height, width and number of components.
    _, process, _, _, precision, *sides, components = tf.unstack(_bytes(encoded, frame, 10), 10)
    high, tall, wide, broad = sides
    pixels = _product(high * 256 + tall, wide * 256 + broad)
    usual = (precision == 8) & (process <= 0xC2) & ((components == 1) | (components == 3))
    return _first(
        ((frame > 0) & (pixels > MAX_PIXELS), TOO_LARGE),
        (tf.cond(exif + xmp > 0, turned, lambda: tf.constant(value=False)), TURNED),
        ((frame > 0) & ~usual, UNUSUAL),
    )


def _of_png(encoded: tf.Tensor) -> tf.Tensor:
    """Read all chunks, because EXIF may be after the pixels."""
    end = tf.strings.length(encoded) - 12

    def chunk(
        at: tf.Tensor, exif: tf.Tensor, transparent: tf.Tensor, pixels: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        size, kind = _number(encoded, at), tf.strings.substr(encoded, at + 4, 4)
        exif = tf.where(kind == b"eXIf", at + 8, exif)
        transparent |= (kind == b"tRNS") & ~pixels
        pixels |= kind == b"IDAT"
        last = (kind == b"IEND") | (size < 0) | (size > end - at)
        return tf.where(last, end + 1, at + 12 + size), exif, transparent, pixels

    no = tf.constant(value=False)
    _, exif, transparent, _ = tf.while_loop(
        lambda at, *_: at <= end, chunk, [tf.constant(8), tf.constant(0), no, no]
    )
    kind = _bytes(encoded, tf.constant(24), 2)
    pixels = _product(_number(encoded, tf.constant(16)), _number(encoded, tf.constant(20)))
    return _first(
        (pixels > MAX_PIXELS, TOO_LARGE),
        (_is_turn(_orientation(encoded, exif)), TURNED),
        (kind[0] > 8, DEPTH),
        (transparent | (kind[1] >= 4), TRANSPARENT),
    )


def _orientation(encoded: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """Return the orientation in the first directory of a TIFF header, where EXIF has it (TIFF 6.0,
    section 2); -1 without one.

    Args:
        encoded: Encoded image.
        at: Where the header begins; 0 if there is none.
    """

    def read() -> tf.Tensor:
        head = _bytes(encoded, at, 8)
        little = head[0] == ord("I")
        known = (head[0] == head[1]) & (little | (head[0] == ord("M")))
        known &= tf.reduce_max(head[2:4]) == 42
        short = tf.where(little, [1, 256], [256, 1])
        long = tf.where(little, [1, 1 << 8, 1 << 16, 1 << 24], [1 << 24, 1 << 16, 1 << 8, 1])
        begin = at + tf.reduce_sum(head[4:8] * long)
        count = tf.reduce_sum(_bytes(encoded, begin, 2) * short)
        rows = tf.reshape(_bytes(encoded, begin + 2, 12 * count), [-1, 12])
        kind = tf.reduce_sum(rows[:, 2:4] * short, 1)
        values = tf.where(
            kind == 3,
            tf.reduce_sum(rows[:, 8:10] * short, 1),
            tf.where(kind == 4, tf.reduce_sum(rows[:, 8:12] * long, 1), 0),
        )
        single = tf.reduce_sum(rows[:, 4:8] * long, 1) == 1
        matches = known & (tf.reduce_sum(rows[:, 0:2] * short, 1) == _ORIENTATION)
        return tf.reduce_max(tf.concat([[-1], tf.where(matches & single, values, -1)], 0))

    return tf.cond(at > 0, read, lambda: tf.constant(-1))


def _is_turn(orientation: tf.Tensor) -> tf.Tensor:
    return (orientation >= 2) & (orientation <= 8)


def _bytes(encoded: tf.Tensor, at: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """Return some bytes as int32, and zeros for those that the image does not have."""
    begin = tf.clip_by_value(at, 0, tf.strings.length(encoded))
    part = tf.io.decode_raw(tf.strings.substr(encoded, begin, count), tf.uint8)
    return tf.cast(tf.pad(part, [[0, count - tf.size(part)]]), tf.int32)


def _number(encoded: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    """Return four bytes, the highest first; negative above 2 ** 31."""
    return tf.reduce_sum(_bytes(encoded, at, 4) * [1 << 24, 1 << 16, 1 << 8, 1])


def _product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.cast(a, tf.int64) * tf.cast(b, tf.int64)


def _first(*reasons: tuple[tf.Tensor, str]) -> tf.Tensor:
    """Return the first reason that holds, or an empty text."""
    first = tf.constant("")
    for holds, reason in reversed(reasons):
        first = tf.where(holds, reason, first)
    return first
