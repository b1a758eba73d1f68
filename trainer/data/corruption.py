"""Finds the damaged record after data could not be read."""

from collections.abc import Callable, Iterable

import tensorflow as tf

from trainer.data.example import BrokenRecordError
from trainer.data.order import Segment
from trainer.data.reader import parse
from trainer.data.source import Source
from trainer.data.targets import target_decoder
from trainer.errors import DataError


def read_image(source: Source, example: int) -> bytes:
    """Return the encoded image of an example, counted through the split.

    Raises:
        DataError: The example cannot be read.
    """
    try:
        encoded, _ = parse(read_record(source, example))
    except tf.errors.OpError as error:
        raise _unreadable(source, example, first_line(error)) from error
    return bytes(encoded.numpy())


def read_record(source: Source, example: int) -> bytes:
    """Return the serialised record of an example, counted through the split.

    Raises:
        DataError: The record cannot be read.
    """
    try:
        return _record(source, *source.locate(example))
    except BrokenRecordError as error:
        raise _unreadable(source, example, error) from error


def _unreadable(source: Source, example: int, reason: object) -> DataError:
    part, index = source.locate(example)
    broken = reason if isinstance(reason, Exception) else None
    where = source.where(part, index, broken)
    return DataError(f"{source.folder / where}: cannot be read ({reason})")


def find_damage(
    source: Source, locate: Callable[[int], tuple[int, int]], positions: Iterable[int]
) -> str | None:
    """Return place and fault of the first example that cannot be used, or None.

    Called after a failed step, with the positions of its batch and of those decoded ahead.
    """
    for position in positions:
        part, index = locate(position)
        fault = _fault(source, part, index)
        if fault:
            return f"{source.where(part, index)}: {fault}"
    return None


def first_line(error: tf.errors.OpError) -> str:
    """Return the part of TensorFlow's message that says what happened."""
    return str(error.message).splitlines()[0]


def _fault(source: Source, part: int, index: int) -> str | None:
    try:
        return target_decoder(source.task).fault(_record(source, part, index), source)
    except tf.errors.OpError as error:
        return f"cannot be read as an image ({first_line(error)})"
    except BrokenRecordError as error:
        return f"cannot be read ({error})"


def _record(source: Source, part: int, index: int) -> bytes:
    """Read a serialised record, without a second attempt: the input has tried that already.

    Raises:
        BrokenRecordError: The record cannot be read.
    """
    segment = Segment(part, index, 1)
    try:
        record = next(source.records(segment, source.path(part)), None)
    except OSError as error:
        raise BrokenRecordError(error.strerror) from error
    if record is None:
        raise BrokenRecordError("the shard ends before it")
    return record
