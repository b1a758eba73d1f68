"""Finds the damaged record after data could not be read."""

import re
from collections.abc import Callable, Iterable

import tensorflow as tf

from trainer.data.example import BrokenRecordError
from trainer.data.formats.record_format import Values
from trainer.data.order import Segment
from trainer.data.source import Source
from trainer.data.targets import target_decoder
from trainer.errors import DataError


def read_image(source: Source, example: int) -> bytes:
    """Return the encoded image of an example, counted through the split.

    Raises:
        DataError: The example cannot be read.
    """
    values = read_record(source, example)
    try:
        return source.format.record(values).encoded
    except BrokenRecordError as error:
        raise _unreadable(source, example, error) from error


def as_tensors(source: Source, values: Values) -> Values:
    """Return the values of one record as the tensors that `RecordFormat.parse` takes."""
    return tuple(tf.constant(*typed) for typed in zip(values, source.format.fields, strict=True))


def read_record(source: Source, example: int) -> Values:
    """Return the record of an example, counted through the split.

    Raises:
        DataError: The record cannot be read.
    """
    try:
        return _record(source, *source.locate(example))
    except BrokenRecordError as error:
        raise _unreadable(source, example, error) from error


def _unreadable(source: Source, example: int, reason: BrokenRecordError) -> DataError:
    block, index = source.locate(example)
    where = source.where(block, index, reason)
    return DataError(f"{source.folder / where}: cannot be read ({reason})")


def find_damage(
    source: Source, locate: Callable[[int], tuple[int, int]], positions: Iterable[int]
) -> str | None:
    """Return the name and the fault of the first example that cannot be used, or None.

    Called after a failed step, with the positions of its batch and of those decoded ahead.
    """
    for position in positions:
        try:
            block, index = locate(position)
        except (BrokenRecordError, OSError):
            # Storage may fail when the window of the position is read again.
            continue
        fault = _fault(source, block, index)
        if fault:
            return f"{source.where(block, index)}: {fault}"
    return None


def _first_line(error: tf.errors.OpError) -> str:
    """Return the part of TensorFlow's message that says what happened, and not where in a graph."""
    return re.sub(r"^\{\{.*?\}\} | \[Op:.*", "", str(error.message).splitlines()[0])


def _fault(source: Source, block: int, index: int) -> str | None:
    try:
        values = as_tensors(source, _record(source, block, index))
        return target_decoder(source.task).fault(values, source)
    except tf.errors.OpError as error:
        return f"cannot be read as an image ({_first_line(error)})"
    except BrokenRecordError as error:
        return f"cannot be read ({error})"


def _record(source: Source, block: int, index: int) -> Values:
    """Read a record, without a second attempt: the input has tried that already.

    Raises:
        BrokenRecordError: The record cannot be read.
    """
    segment = Segment(block, index, 1)
    try:
        record = next(source.records(segment, source.path(block)), None)
    except OSError as error:
        raise BrokenRecordError(error.strerror) from error
    if record is None:
        raise BrokenRecordError("the shard ends before it")
    return record
