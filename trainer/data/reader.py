"""From shards to serialised records, in an order and from any position on.

    order (Python)  ->  windows of segments, one record from each stream in turn
    read  ->  warn, pause, read the original  ->  the same, longer pause  ->  name the bad record

Storage behind a network sometimes fails briefly, so each window is read in several attempts.
tf.data begins an attempt only when the previous one has yielded nothing, so the others cost nothing
as long as reading succeeds.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.data.example import BrokenRecordError
from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment, Window
from trainer.data.source import READS, Source

READ_BUFFER = 1 << 20
"""Bytes read from storage at once."""

PAUSES = (1.0, 5.0)
"""Seconds before the second and the third attempt. A server that is busy or has moved responds
again within seconds; otherwise the data are probably damaged, and the other ranks are waiting."""

_UNREADABLE = "unreadable"
"""Start of the message of an error that names a record."""

_INTEGERS, _TEXTS = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)

_ROW = (_INTEGERS, _INTEGERS, _INTEGERS, _INTEGERS, _TEXTS, _INTEGERS)
"""A window as tensors. Of each segment: its part, first record, number of records, the byte where
the indexed record at or before the first begins, and the file to read it from; then the shuffle."""

_Row = tuple[tf.Tensor, ...]


def parse(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Parse a serialised record into encoded image and label, scalars of string and int64."""
    features = tf.io.parse_single_example(
        serialized,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    return features["image/encoded"], features["image/class/label"]


def training_records(source: Source, order: Order, rank: int, position: int) -> tf.data.Dataset:
    """Return an endless data set of one rank's serialised records in order, from a position on."""
    turns = order.streams_per_rank

    def windows(turn: int) -> Iterator[Window]:
        return order.endless_windows(rank, int(turn), position)

    reader = _WindowReader(source, order.window, turns)
    return tf.data.Dataset.range(turns).interleave(
        lambda turn: reader.records(windows, turn),
        cycle_length=turns,
        block_length=1,
        num_parallel_calls=min(turns, READS),
        deterministic=True,
    )


def read_segments(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
    """Return a data set of the serialised records of some segments, one after the other."""
    segments, size = list(segments), source.config.shuffle_window

    def windows() -> Iterator[Window]:
        for segment in segments:
            end = segment.first + segment.count
            for first in range(segment.first, end, size):
                count = min(size, end - first)
                yield Window((Segment(segment.shard, first, count),), tuple(range(count)))

    return _WindowReader(source, size).records(windows)


def unreadable(error: Exception) -> str | None:
    """Return shard, record and fault in an error of these data sets; None for any other error."""
    match = re.search(rf"\[{_UNREADABLE}\] \[(.*)\]", str(error))
    return match[1] if match else None


class _WindowReader:
    """Reads windows, each in several attempts; after a permanent failure no more are begun."""

    def __init__(self, source: Source, size: int, streams: int = 1) -> None:
        """Args:
        source: Split to read.
        size: Most records of a window.
        streams: Streams whose windows are read in turn.
        """
        self._source, self._size = source, size
        self._reader = source.format.reader(streams)
        self._failed = False

    def records(
        self, windows: Callable[..., Iterator[Window]], *args: tf.Tensor
    ) -> tf.data.Dataset:
        """Return the records of the windows that `windows(*args)` yields, read whole and one ahead.

        The data set fails with tensorflow.errors.InvalidArgumentError where no attempt succeeded;
        `unreadable` finds the record in that error.
        """
        rows = tf.data.Dataset.from_generator(
            lambda *args: self._rows(windows(*args)), output_signature=_ROW, args=args
        )
        return rows.flat_map(self._window).prefetch(1).unbatch()

    def _rows(self, windows: Iterable[Window]) -> Iterator[tuple[list[Any], ...]]:
        """Yield windows as values of `_ROW`, each with the current files of its shards."""
        source = self._source
        for window in windows:
            # tf.data requests all records of a batch before it reports that one is unreadable.
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
        """Return a data set of one element: the records of a window from the first good attempt."""
        attempts = tf.data.Dataset.from_tensors(row).map(self._read)
        for number, pause in enumerate(PAUSES, 1):
            again = self._read_again(row, number, pause)
            attempts = attempts.ignore_errors(log_warning=True).concatenate(again)
        failure = tf.data.Dataset.from_tensors(row).map(self._fail)
        return attempts.ignore_errors(log_warning=True).concatenate(failure).take(1)

    def _read(self, *row: tf.Tensor) -> tf.Tensor:
        """Return the records of a window, string [n]."""
        *segments, shuffle = row
        if self._source.format.native:
            parts = tf.data.Dataset.from_tensor_slices(tuple(segments))
            records = parts.flat_map(_read_segment).batch(self._size).get_single_element()
        else:
            records = tf.ensure_shape(
                tf.numpy_function(self._read_by_python, segments, tf.string), [None]
            )
        return tf.gather(records, shuffle)

    def _read_by_python(self, *values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the records of some segments, given as in `_ROW`; none if one cannot be read."""
        records: list[bytes] = []
        try:
            for segment, path in zip(_segments(*values), values[-1], strict=True):
                records += self._source.records(segment, Path(path.decode()), self._reader)
        except (BrokenRecordError, OSError):
            # A Python exception would print its traceback; without records, `_read` fails.
            records = []
        return np.array(records, dtype=object)

    def _read_again(self, row: _Row, number: int, pause: float) -> tf.data.Dataset:
        """Warn that an attempt failed, wait, and read from the data folder."""
        *segments, _, shuffle = row

        def warn(*values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return _warn(self._source, _segments(*values), number, pause)

        def paths(*values: tf.Tensor) -> tf.data.Dataset:
            originals = tf.ensure_shape(tf.numpy_function(warn, values, tf.string), [None])
            return _pause(tf.data.Dataset.from_tensors(originals), pause)

        prepared = tf.data.Dataset.from_tensors(tuple(segments)).flat_map(paths)
        return prepared.map(lambda originals: self._read(*segments, originals, shuffle))

    def _fail(self, *row: tf.Tensor) -> tf.Tensor:
        """Raise an error that names the record that could not be read."""

        def describe(*values: np.ndarray[Any, Any]) -> bytes:
            self._failed = True
            return _find_fault(self._source, _segments(*values)).encode()

        # A Python exception would print its traceback.
        fault = tf.ensure_shape(tf.numpy_function(describe, row, tf.string), [])
        raised = tf.debugging.Assert(tf.equal(fault, ""), [_UNREADABLE, fault])
        with tf.control_dependencies([raised]):
            return tf.fill([0], fault)


def _read_segment(
    _: tf.Tensor, first: tf.Tensor, count: tf.Tensor, offset: tf.Tensor, path: tf.Tensor
) -> tf.data.Dataset:
    """Return a data set of the records of a segment, given as in `_ROW`."""
    # tf.data.TFRecordDataset cannot start inside a file; the operation under it can.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=READ_BUFFER, byte_offsets=[offset]
    )
    dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    return dataset.skip(first % INDEX_EVERY).take(count)


def _segments(*columns: np.ndarray[Any, Any]) -> list[Segment]:
    """Return the segments of a window, given as in `_ROW`."""
    return [Segment(*map(int, values)) for values in zip(*columns[:3], strict=True)]


def _warn(
    source: Source, segments: Sequence[Segment], number: int, pause: float
) -> np.ndarray[Any, Any]:
    """Warn that an attempt failed; return the files to read from in the next one."""
    if source.cache is not None:
        for segment in segments:
            source.cache.check(source.shard(segment.shard))
    print(
        f"warning: {_names(source, segments)}: could not be read (attempt {number} of"
        f" {len(PAUSES) + 1}), trying again in {pause:g} s",
        flush=True,
    )
    paths = [str(source.origin(segment.shard)).encode() for segment in segments]
    return np.array(paths, dtype=object)


def _find_fault(source: Source, segments: Sequence[Segment]) -> str:
    """Describe the first record of some segments that cannot be read, and why."""
    for segment in segments:
        part, end = segment.shard, segment.first + segment.count
        index = source.format.begin(segment.first)
        reason: Exception | str = "the shard ends before it"
        try:
            for _ in source.records(Segment(part, index, end - index), source.origin(part)):
                index += 1
        except BrokenRecordError as error:
            reason = error
        except OSError as error:
            reason = error.strerror or str(error)
        if index < end:
            broken = reason if isinstance(reason, Exception) else None
            return f"{source.where(part, index, broken)}: cannot be read ({reason})"
    return f"{_names(source, segments)}: could not be read in {len(PAUSES) + 1} attempts"


def _names(source: Source, segments: Sequence[Segment]) -> str:
    return ", ".join(dict.fromkeys(source.shard(segment.shard).file for segment in segments))


def _pause(dataset: tf.data.Dataset, seconds: float) -> tf.data.Dataset:
    """Delay the elements of a data set, without blocking a thread that decodes."""
    spec = dataset.element_spec
    variant = tf.raw_ops.SleepDataset(
        input_dataset=dataset._variant_tensor,  # noqa: SLF001 as tf.data's own transformations do
        sleep_microseconds=round(seconds * 1e6),
        output_types=[spec.dtype],
        output_shapes=[spec.shape],
    )
    return tf.data.experimental.from_variant(variant, spec)
