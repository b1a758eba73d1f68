"""From shards to records, in an order and from any position on.

    order  ->  windows of segments, read whole, checked and shuffled by threads, one window ahead
           ->  one record from each stream in turn  ->  chunks of records  ->  tf.data

Everything before tf.data is Python. A chunk has a vector for each field of the format, into which
each record is copied once; operations of TensorFlow that shuffle, batch or unbatch strings would
copy it again.

Storage behind a network sometimes fails briefly, so each window is read in several attempts: after
a warning and a pause it is read from the data folder, then again after a longer pause. If that
fails too, the error names the bad record.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from itertools import cycle
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.data.example import BrokenRecordError
from trainer.data.formats.record_format import Values
from trainer.data.imbalance.sampling import Selection, sampling
from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment, Window
from trainer.data.source import CHUNK, READS, Source
from trainer.errors import warn

PAUSES = (1.0, 5.0)
"""Seconds before the second and the third attempt. A server that is busy or has moved responds
again within seconds; otherwise the data are probably damaged, and the other ranks are waiting."""

_UNREADABLE = "unreadable"
"""Start of the message of an error that names a record."""


class _UnreadableError(Exception):
    """A record that no attempt could read; the message names it."""


def training_records(source: Source, order: Order, rank: int, position: int) -> tf.data.Dataset:
    """Return an endless data set of one rank's records in order, from a position on, in chunks: a
    tensor [n] for each field of the format, where n is at most `CHUNK`.

    It fails with tensorflow.errors.InvalidArgumentError where no attempt to read succeeded;
    `unreadable` finds the record in that error.
    """
    choose, readings = sampling(source), order.readings(rank, position)
    first, *others = (_records(source, streams, choose) for streams in readings)
    return reduce(tf.data.Dataset.concatenate, others, first)


def locator(source: Source, order: Order) -> Callable[[int], tuple[int, int]]:
    """Return the function from a position of training to the block, and the record in it, that is
    read there. It raises `BrokenRecordError` or OSError if a window cannot be read.
    """
    choose = sampling(source)
    if choose is None:
        return order.locate
    known: dict[str, Sequence[int]] = {}

    def locate(position: int) -> tuple[int, int]:
        window = order.window_at(position)
        if window.key not in known:
            parts = (
                source.records(segment, source.path(segment.block)) for segment in window.segments
            )
            records = [record for part in parts for record in part]
            known[window.key] = choose(records, replace(window, shuffle=tuple(range(len(records)))))
        return window.locate(known[window.key][window.shuffle[0]])

    return locate


def read_segments(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
    """Return a data set of the records of some segments, one after the other, in chunks as those of
    `training_records`; it fails as that does.
    """
    segments, size = list(segments), source.config.shuffle_window

    def windows() -> Iterator[Window]:
        for segment in segments:
            end = segment.first + segment.count
            for first in range(segment.first, end, size):
                count = min(size, end - first)
                yield Window((Segment(segment.block, first, count),), tuple(range(count)))

    return _records(source, [windows])


def unreadable(error: Exception) -> str | None:
    """Return shard, record and fault in an error of these data sets; None for any other error."""
    match = re.search(rf"\[{_UNREADABLE}\] \[(.*)\]", str(error))
    return match[1] if match else None


def _records(
    source: Source,
    streams: Sequence[Callable[[], Iterator[Window]]],
    choose: Selection | None = None,
) -> tf.data.Dataset:
    """Return a data set of chunks of records, one from each stream of windows in turn.

    Args:
        source: Split to read.
        streams: Functions that return windows. Reading ends with the first of them that has no
        record when its turn comes.
        choose: Which records of each window are read; None is all.
    """

    def checked(records: Values, fault: tf.Tensor) -> Values:
        raised = tf.debugging.Assert(tf.equal(fault, ""), [_UNREADABLE, fault])
        with tf.control_dependencies([raised]):
            return tuple(map(tf.identity, records))

    def read() -> Iterator[tuple[tuple[np.ndarray[Any, Any], ...], str]]:
        reader = _WindowReader(source, len(streams), choose)
        return reader.chunks([windows() for windows in streams])

    chunks = tf.data.Dataset.from_generator(
        read,
        # Records, and in place of the last ones the fault of a record; "" if there is none.
        output_signature=(
            tuple(tf.TensorSpec([None], field) for field in source.format.fields),
            tf.TensorSpec([], tf.string),
        ),
    )
    return chunks.map(checked).prefetch(1)


class _WindowReader:
    """Reads windows by threads; after a permanent failure no more are begun."""

    def __init__(self, source: Source, streams: int, choose: Selection | None) -> None:
        """Args:
        source: Split to read.
        streams: Streams whose windows are read in turn.
        choose: Which records of each window are read; None is all.
        """
        self._source, self._choose = source, choose
        self._reader = source.format.reader(streams)
        self._pool = ThreadPoolExecutor(min(streams, READS), "reader")
        self._ended = threading.Event()

    def chunks(
        self, streams: Sequence[Iterator[Window]]
    ) -> Iterator[tuple[tuple[np.ndarray[Any, Any], ...], str]]:
        """Yield one record from each stream in turn, in chunks of arrays, each with a fault. A
        chunk ends early where a window is still being read.
        """
        chunk: list[Values] = []
        try:
            readers = [_Stream(partial(self._next, windows), self._pool) for windows in streams]
            for stream in cycle(readers):
                if chunk and (len(chunk) == CHUNK or not stream.ready):
                    yield self._arrays(chunk), ""
                    chunk = []
                record = stream.next()
                if record is None:
                    break
                chunk.append(record)
            if chunk:
                yield self._arrays(chunk), ""
        except _UnreadableError as error:
            # tf.data requests all records of a batch before it reports that one is unreadable.
            self._ended.set()
            if chunk:
                yield self._arrays(chunk), ""
            yield self._arrays([]), str(error)
        finally:
            self._ended.set()
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _arrays(self, records: Sequence[Values]) -> tuple[np.ndarray[Any, Any], ...]:
        fields = self._source.format.fields
        columns = zip(*records, strict=True) if records else ((),) * len(fields)
        return tuple(
            np.array(column, object if field == "string" else field)
            for field, column in zip(fields, columns, strict=True)
        )

    def _next(self, windows: Iterator[Window]) -> list[Values]:
        """Return the records of the next window, the first one last; none if there is no other.

        Raises:
            _UnreadableError: No attempt succeeded.
        """
        window = None if self._ended.is_set() else next(windows, None)
        if window is None:
            return []
        source, segments = self._source, window.segments
        for number, pause in enumerate((*PAUSES, None), 1):
            try:
                records = self._read(segments)
                shown = self._choose(records, window) if self._choose else window.shuffle
                return [records[index] for index in reversed(shown)]
            except (BrokenRecordError, OSError) as error:
                if pause is not None:
                    _warn(source, segments, number, pause, error)
                    if self._ended.wait(pause):
                        return []
        raise _UnreadableError(_find_fault(source, segments))

    def _read(self, segments: Sequence[Segment]) -> list[Values]:
        """Return the records of some segments, in the order of the segments.

        Raises:
            BrokenRecordError: A record is damaged or missing.
            OSError: A file cannot be read.
        """
        records: list[Values] = []
        for segment in segments:
            path = self._source.path(segment.block)
            records += self._source.records(segment, path, self._reader)
        if len(records) < sum(segment.count for segment in segments):
            raise BrokenRecordError("the shard ends before it")
        return records


class _Stream:
    """The records of a stream, whose windows are read one ahead."""

    def __init__(self, read: Callable[[], list[Values]], pool: ThreadPoolExecutor) -> None:
        self._read, self._pool = read, pool
        self._records: list[Values] = []
        self._ahead: Future[list[Values]] = pool.submit(read)

    @property
    def ready(self) -> bool:
        """Whether the next record need not be waited for."""
        return bool(self._records) or self._ahead.done()

    def next(self) -> Values | None:
        """Return the next record, or None at the end.

        Raises:
            _UnreadableError: It could not be read.
        """
        if not self._records:
            self._records = self._ahead.result()
            if not self._records:
                return None
            self._ahead = self._pool.submit(self._read)
        # Each record is released as soon as it is used.
        return self._records.pop()


def _warn(
    source: Source, segments: Sequence[Segment], number: int, pause: float, error: Exception
) -> None:
    """Warn that an attempt failed."""
    warn(
        f"{_names(source, segments)}: could not be read (attempt {number} of"
        f" {len(PAUSES) + 1}), trying again in {pause:g} s: {_reason(error)}"
    )


def _find_fault(source: Source, segments: Sequence[Segment]) -> str:
    """Describe the first record of some segments that cannot be read, and why."""
    for segment in segments:
        block, end = segment.block, segment.first + segment.count
        # From where reading can begin, as the records before it are read as well.
        index = segment.first - segment.first % INDEX_EVERY
        reason: Exception = BrokenRecordError("the shard ends before it")
        try:
            for _ in source.records(Segment(block, index, end - index), source.path(block)):
                index += 1
        except (BrokenRecordError, OSError) as error:
            reason = error
        if index < end:
            broken = reason if isinstance(reason, BrokenRecordError) else None
            return f"{source.where(block, index, broken)}: cannot be read ({_reason(reason)})"
    return f"{_names(source, segments)}: could not be read in {len(PAUSES) + 1} attempts"


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _names(source: Source, segments: Sequence[Segment]) -> str:
    return ", ".join(dict.fromkeys(source.shard(segment.block).file for segment in segments))
