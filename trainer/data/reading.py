"""From shards to serialised records, in an order and from any position on.

plan (Python)  ->  windows of segments, one record from each stream in turn
"""

from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment
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
    first_epoch = position // order.examples
    turns = order.streams_per_rank
    integers = tf.TensorSpec([None], tf.int64)

    def windows(epoch: int, turn: int) -> Iterator[tuple[list[int], ...]]:
        begin = position if epoch == first_epoch else int(epoch) * order.examples
        stream, record = order.rank_streams(rank, begin)[turn]
        for window in order.windows(int(epoch), stream, record):
            yield *_columns(window.segments), list(window.shuffle)

    read_segment = _segment_reader(source)

    def read_window(
        shards: tf.Tensor, firsts: tf.Tensor, counts: tf.Tensor, shuffle: tf.Tensor
    ) -> tf.Tensor:
        segments = tf.data.Dataset.from_tensor_slices((shards, firsts, counts))
        window = segments.flat_map(read_segment).batch(order.window).get_single_element()
        return tf.gather(window, shuffle)

    def stream(epoch: tf.Tensor, turn: tf.Tensor) -> tf.data.Dataset:
        plan = tf.data.Dataset.from_generator(
            windows, output_signature=(integers,) * 4, args=(epoch, turn)
        )
        return plan.map(read_window).prefetch(1).unbatch()

    def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.range(turns).interleave(
            lambda turn: stream(epoch, turn),
            cycle_length=turns,
            block_length=1,
            num_parallel_calls=min(turns, READS),
            deterministic=True,
        )

    return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_records)


def read_segments(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
    """Serialised records of some segments, one after the other."""
    columns = tuple(tf.constant(column, tf.int64) for column in _columns(segments))
    return tf.data.Dataset.from_tensor_slices(columns).flat_map(_segment_reader(source))


def _columns(segments: Iterable[Segment]) -> tuple[list[int], list[int], list[int]]:
    rows = list(segments)
    return [s.shard for s in rows], [s.first for s in rows], [s.count for s in rows]


def _segment_reader(source: Source) -> Callable[..., tf.data.Dataset]:
    """A function (shard, first, count) -> dataset of those records, which starts reading at the
    nearest indexed record.
    """
    shards = source.split.shards
    paths = tf.constant([str(source.folder / shard.file) for shard in shards])
    index = tf.ragged.constant([shard.index for shard in shards], tf.int64)
    offsets, rows = index.values, index.row_starts()

    def read(shard: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
        # tf.data.TFRecordDataset cannot start inside a file; the operation under it can.
        variant = tf.raw_ops.TFRecordDatasetV2(
            filenames=[tf.gather(paths, shard)],
            compression_type="",
            buffer_size=READ_BUFFER,
            byte_offsets=[tf.gather(offsets, tf.gather(rows, shard) + first // INDEX_EVERY)],
        )
        dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
        return dataset.skip(first % INDEX_EVERY).take(count)

    return read
