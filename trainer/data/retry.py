"""Reading that is tried again: storage behind a network fails for a moment now and then.

    read  ->  say so, pause, read the original  ->  the same, longer  ->  name what cannot be read

tf.data begins an attempt only when the one before it has yielded nothing, so that the others cost
nothing as long as reading succeeds.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Segment, Window
from trainer.data.source import Source
from trainer.data.tfrecord import BrokenRecordError

PAUSES = (1.0, 5.0)
"""Seconds before the second and the third attempt. A server that is busy or moved answers again
within seconds; what does not is damaged, and the other ranks wait meanwhile."""

_UNREADABLE = "unreadable"
"""What begins the message of the error that names a record."""

_INTEGERS, _TEXTS = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)

ROW = (_INTEGERS, _INTEGERS, _INTEGERS, _INTEGERS, _TEXTS, _INTEGERS)
"""A window as tensors. Of each segment: its shard, first record, number of records, the byte where
the indexed record at or before the first begins, and the file to read it from; then the shuffle."""


class PatientReader:
    """Reads windows, each in several attempts; once one has failed for good, no more are begun."""

    def __init__(self, source: Source, read: Callable[..., tf.Tensor]) -> None:
        """Args:
        source: what is read.
        read: of the tensors of `ROW`; returns records as a string tensor [n].
        """
        self._source, self._read = source, read
        self._failed = False

    def rows(self, windows: Iterable[Window]) -> Iterator[tuple[list[Any], ...]]:
        """Windows as values of `ROW`, each to be read from where its shards are at that moment."""
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

    def read(self, *window: tf.Tensor) -> tf.data.Dataset:
        """A data set of one element: the records of a window in the first attempt that succeeds.

        Args:
            window: as `ROW`.

        Raises:
            tensorflow.errors.InvalidArgumentError: no attempt succeeded; `unreadable` says of what.
        """
        attempts = tf.data.Dataset.from_tensors(window).map(self._read)
        for number, pause in enumerate(PAUSES, 1):
            again = self._again(window, number, pause)
            attempts = attempts.ignore_errors(log_warning=True).concatenate(again)
        failed = tf.data.Dataset.from_tensors(window).map(self._fail)
        return attempts.ignore_errors(log_warning=True).concatenate(failed).take(1)

    def _again(self, window: tuple[tf.Tensor, ...], number: int, pause: float) -> tf.data.Dataset:
        """Say that an attempt failed, wait, and read from the data folder."""
        *segments, _, shuffle = window

        def warn(*values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return _warn(self._source, _segments(*values), number, pause)

        def prepare(*segments: tf.Tensor) -> tf.data.Dataset:
            paths = tf.ensure_shape(tf.numpy_function(warn, segments, tf.string), [None])
            return _pause(tf.data.Dataset.from_tensors(paths), pause)

        paths = tf.data.Dataset.from_tensors(tuple(segments)).flat_map(prepare)
        return paths.map(lambda paths: self._read(*segments, paths, shuffle))

    def _fail(self, *window: tf.Tensor) -> tf.Tensor:
        def name(*values: np.ndarray[Any, Any]) -> bytes:
            self._failed = True
            return _find(self._source, _segments(*values)).encode()

        # An exception of Python's would print its traceback.
        fault = tf.ensure_shape(tf.numpy_function(name, window, tf.string), [])
        found = tf.debugging.Assert(tf.equal(fault, ""), [_UNREADABLE, fault])
        with tf.control_dependencies([found]):
            return tf.fill([0], fault)


def unreadable(error: Exception) -> str | None:
    """The shard, record and fault in an error of `read_patiently`; none in any other error."""
    found = re.search(rf"\[{_UNREADABLE}\] \[(.*)\]", str(error))
    return found[1] if found else None


def _segments(*rows: np.ndarray[Any, Any]) -> list[Segment]:
    return [Segment(*map(int, row)) for row in zip(*rows[:3], strict=True)]


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


def _find(source: Source, segments: Sequence[Segment]) -> str:
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
