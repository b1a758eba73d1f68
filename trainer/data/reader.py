"""From shards to serialised records, in an order and from any position on.

    order (Python)  ->  windows of segments, one record from each stream in turn
    read  ->  say so, pause, read the original  ->  the same, longer  ->  name what cannot be read

Storage behind a network fails for a moment now and then, so each window is read in several
attempts. tf.data begins an attempt only when the one before it has yielded nothing, so that the
others cost nothing as long as reading succeeds.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.data.example import BrokenRecordError
from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment, Window
from trainer.data.source import Source

READ_BUFFER = 1 << 20
"""Bytes read from storage at once."""

READS = 16
"""Streams that a rank reads ahead at the same time."""

PAUSES = (1.0, 5.0)
"""Seconds before the second and the third attempt. A server that is busy or moved answers again
within seconds; what does not is damaged, and the other ranks wait meanwhile."""

_UNREADABLE = "unreadable"
"""What begins the message of the error that names a record."""

_INTEGERS, _TEXTS = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)

_ROW = (_INTEGERS, _INTEGERS, _INTEGERS, _INTEGERS, _TEXTS, _INTEGERS)
"""A window as tensors. Of each segment: its shard, first record, number of records, the byte where
the indexed record at or before the first begins, and the file to read it from; then the shuffle."""

_Row = tuple[tf.Tensor, ...]


def parse(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Read the encoded image and the label, scalars of string and int64, of a serialised record."""
    features = tf.io.parse_single_example(
        serialized,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    return features["image/encoded"], features["image/class/label"]


def training_records(source: Source, order: Order, rank: int, position: int) -> tf.data.Dataset:
    """Serialised records of one rank in its order, from a position on, without end."""
    turns = order.streams_per_rank

    def windows(turn: int) -> Iterator[Window]:
        return order.endless_windows(rank, int(turn), position)

    return tf.data.Dataset.range(turns).interleave(
        lambda turn: _WindowReader(source, order.window).records(windows, turn),
        cycle_length=turns,
        block_length=1,
        num_parallel_calls=min(turns, READS),
        deterministic=True,
    )


def read_segments(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
    """Serialised records of some segments, one after the other."""
    segments, size = list(segments), source.config.shuffle_window

    def windows() -> Iterator[Window]:
        for segment in segments:
            end = segment.first + segment.count
            for first in range(segment.first, end, size):
                count = min(size, end - first)
                yield Window((Segment(segment.shard, first, count),), tuple(range(count)))

    return _WindowReader(source, size).records(windows)


def unreadable(error: Exception) -> str | None:
    """The shard, record and fault in an error of these records; None in any other error."""
    match = re.search(rf"\[{_UNREADABLE}\] \[(.*)\]", str(error))
    return match[1] if match else None


class _WindowReader:
    """Reads windows, each in several attempts; once one has failed for good, no more are begun."""

    def __init__(self, source: Source, size: int) -> None:
        """Args:
        source: what is read.
        size: most records of a window.
        """
        self._source, self._size = source, size
        self._failed = False

    def records(
        self, windows: Callable[..., Iterator[Window]], *args: tf.Tensor
    ) -> tf.data.Dataset:
        """The records of the windows that `windows(*args)` gives, read whole and one ahead.

        The data set ends with tensorflow.errors.InvalidArgumentError where no attempt succeeded;
        `unreadable` says of what.
        """
        rows = tf.data.Dataset.from_generator(
            lambda *args: self._rows(windows(*args)), output_signature=_ROW, args=args
        )
        return rows.flat_map(self._window).prefetch(1).unbatch()

    def _rows(self, windows: Iterable[Window]) -> Iterator[tuple[list[Any], ...]]:
        """Windows as values of `_ROW`, each to be read from where its shards are at that moment."""
        source = self._source
        for window in windows:
            # A batch asks for all its records before it reports that one could not be read.
            if self._failed:
                return
            segments = window.segments
            yield (
                [segment.shard for segment in segments],
                [segment.first for segment in segments],
                [segment.count for segment in segments],
                [source.offset(segment) for segment in segments],
                [str(source.path(segment.shard)) for segment in segments],
                list(window.shuffle),
            )

    def _window(self, *row: tf.Tensor) -> tf.data.Dataset:
        """A data set of one element: the records of a window in the first attempt that succeeds."""
        attempts = tf.data.Dataset.from_tensors(row).map(self._read)
        for number, pause in enumerate(PAUSES, 1):
            again = self._read_again(row, number, pause)
            attempts = attempts.ignore_errors(log_warning=True).concatenate(again)
        failure = tf.data.Dataset.from_tensors(row).map(self._fail)
        return attempts.ignore_errors(log_warning=True).concatenate(failure).take(1)

    def _read(self, *row: tf.Tensor) -> tf.Tensor:
        """The records of a window, string [n]."""
        *segments, shuffle = row
        parts = tf.data.Dataset.from_tensor_slices(tuple(segments))
        records = parts.flat_map(_read_segment).batch(self._size).get_single_element()
        return tf.gather(records, shuffle)

    def _read_again(self, row: _Row, number: int, pause: float) -> tf.data.Dataset:
        """Say that an attempt failed, wait, and read from the data folder."""
        *segments, _, shuffle = row

        def warn(*values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return _warn(self._source, _segments(*values), number, pause)

        def paths(*values: tf.Tensor) -> tf.data.Dataset:
            originals = tf.ensure_shape(tf.numpy_function(warn, values, tf.string), [None])
            return _pause(tf.data.Dataset.from_tensors(originals), pause)

        prepared = tf.data.Dataset.from_tensors(tuple(segments)).flat_map(paths)
        return prepared.map(lambda originals: self._read(*segments, originals, shuffle))

    def _fail(self, *row: tf.Tensor) -> tf.Tensor:
        """Raise an error that names what could not be read."""

        def describe(*values: np.ndarray[Any, Any]) -> bytes:
            self._failed = True
            return _find_fault(self._source, _segments(*values)).encode()

        # An exception of Python's would print its traceback.
        fault = tf.ensure_shape(tf.numpy_function(describe, row, tf.string), [])
        raised = tf.debugging.Assert(tf.equal(fault, ""), [_UNREADABLE, fault])
        with tf.control_dependencies([raised]):
            return tf.fill([0], fault)


def _read_segment(
    _: tf.Tensor, first: tf.Tensor, count: tf.Tensor, offset: tf.Tensor, path: tf.Tensor
) -> tf.data.Dataset:
    """The records of a segment, given as in `_ROW`."""
    # tf.data.TFRecordDataset cannot start inside a file; the operation under it can.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=READ_BUFFER, byte_offsets=[offset]
    )
    dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    return dataset.skip(first % INDEX_EVERY).take(count)


def _segments(*columns: np.ndarray[Any, Any]) -> list[Segment]:
    """The segments of a window, given as in `_ROW`."""
    return [Segment(*map(int, values)) for values in zip(*columns[:3], strict=True)]


def _warn(
    source: Source, segments: Sequence[Segment], number: int, pause: float
) -> np.ndarray[Any, Any]:
    """Say that an attempt failed; returns the files to read from in the next one."""
    if source.cache is not None:
        for segment in segments:
            source.cache.check(source.split.shards[segment.shard])
    print(
        f"warning: {_names(source, segments)}: could not be read (attempt {number} of"
        f" {len(PAUSES) + 1}), again in {pause:g} s",
        flush=True,
    )
    paths = [str(source.origin(segment.shard)).encode() for segment in segments]
    return np.array(paths, dtype=object)


def _find_fault(source: Source, segments: Sequence[Segment]) -> str:
    """Name the first record of some segments that cannot be read, and why."""
    for segment in segments:
        shard, end = segment.shard, segment.first + segment.count
        index = segment.first - segment.first % INDEX_EVERY
        reason: object = "the shard ends before it"
        try:
            for _ in source.records(Segment(shard, index, end - index), source.origin(shard)):
                index += 1
        except BrokenRecordError as error:
            reason = error
        except OSError as error:
            reason = error.strerror
        if index < end:
            return f"{source.split.shards[shard].file}, record {index}: cannot be read ({reason})"
    return f"{_names(source, segments)}: could not be read in {len(PAUSES) + 1} attempts"


def _names(source: Source, segments: Sequence[Segment]) -> str:
    return ", ".join(dict.fromkeys(source.split.shards[segment.shard].file for segment in segments))


def _pause(dataset: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Pass elements on after a while, without holding up one of the threads that decode."""
    spec = dataset.element_spec
    variant = tf.raw_ops.SleepDataset(
        input_dataset=dataset._variant_tensor,  # noqa: SLF001 as tf.data's own transformations do
        sleep_microseconds=round(seconds * 1e6),
        output_types=[spec.dtype],
        output_shapes=[spec.shape],
    )
    return tf.data.experimental.from_variant(variant, spec)
