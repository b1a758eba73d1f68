"""From shards to serialised records, in an order and from any position on.

plan (Python)  ->  windows of segments, one record from each stream in turn
"""

from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment, Window
from trainer.data.retry import ROW, PatientReader
from trainer.data.source import Source

READ_BUFFER = 1 << 20
"""Bytes read from storage at once."""

READS = 16
"""Streams that a rank reads ahead at the same time."""


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
        lambda turn: _read(source, order.window, windows, turn),
        cycle_length=turns,
        block_length=1,
        num_parallel_calls=min(turns, READS),
        deterministic=True,
    )


def read_segments(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
    """Serialised records of some segments, one after the other."""
    known, size = list(segments), source.config.shuffle_window

    def windows() -> Iterator[Window]:
        for segment in known:
            end = segment.first + segment.count
            for first in range(segment.first, end, size):
                count = min(size, end - first)
                yield Window((Segment(segment.shard, first, count),), tuple(range(count)))

    return _read(source, size, windows)


def _read(
    source: Source, size: int, windows: Callable[..., Iterator[Window]], *args: tf.Tensor
) -> tf.data.Dataset:
    """The records of windows of up to `size` records, which are read whole and one ahead."""

    def read(*window: tf.Tensor) -> tf.Tensor:
        *segments, shuffle = window
        parts = tf.data.Dataset.from_tensor_slices(tuple(segments))
        records = parts.flat_map(_read_segment).batch(size).get_single_element()
        return tf.gather(records, shuffle)

    reader = PatientReader(source, read)
    planned = tf.data.Dataset.from_generator(
        lambda *args: reader.rows(windows(*args)), output_signature=ROW, args=args
    )
    return planned.flat_map(reader.read).prefetch(1).unbatch()


def _read_segment(
    _: tf.Tensor, first: tf.Tensor, count: tf.Tensor, offset: tf.Tensor, path: tf.Tensor
) -> tf.data.Dataset:
    """The records of a segment, given as in `ROW`."""
    # tf.data.TFRecordDataset cannot start inside a file; the operation under it can.
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=READ_BUFFER, byte_offsets=[offset]
    )
    dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    return dataset.skip(first % INDEX_EVERY).take(count)
