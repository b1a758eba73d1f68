"""From shards to batches of uint8 on the device.

    order (pure)  ->  windows of records  ->  one record from each stream in turn
                  ->  decode, crop, resize (parallel, in order)  ->  batch  ->  prefetch

Every random choice is stateless and keyed by (seed, position), so it is the same after any resume
and at any parallelism. The host does what needs the encoded image; flip and normalisation happen on
the device, which receives a quarter of the bytes that float32 would be.
"""

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from typing import Any

import tensorflow as tf

from trainer.data import images
from trainer.data.manifest import INDEX_EVERY
from trainer.data.order import Order, Segment
from trainer.data.records import parse
from trainer.data.source import Source
from trainer.errors import DataError

READ_BUFFER = 1 << 20
"""Bytes read from storage at once."""

READS = 16
"""Streams that a rank reads ahead at the same time."""

Batch = dict[str, Any]
"""image uint8 [b, size, size, 3]; label int32 [b]; weight float32 [b], 0 for what does not count;
flip bool [b]."""


def make_order(source: Source, ranks: int) -> Order:
    """The training order of a source for a number of ranks."""
    config = source.config
    return Order(source.counts, config.streams, config.shuffle_window, source.seed, ranks)


def training_batches(
    source: Source, rank: int, ranks: int, batch_size: int, position: int, threads: int
) -> tf.data.Dataset:
    """An endless dataset of one rank's batches.

    Args:
        source: what to read.
        rank: this rank.
        ranks: ranks that share the data.
        batch_size: images a batch, of this rank.
        position: examples that all ranks together have read before.
        threads: images decoded at once.
    """
    examples = training_examples(source, rank, ranks, position)

    def decode(place: tf.Tensor, serialized: tf.Tensor) -> Batch:
        encoded, label = _checked(serialized, source.classes)
        image = images.training_image(encoded, source, place)
        return _example(image, label, images.flips(source, place))

    decoded = _decode(examples, decode, source, make_order(source, ranks).locate, threads)
    return _finish(decoded.batch(batch_size, drop_remainder=True), source, threads)


def training_examples(source: Source, rank: int, ranks: int, position: int) -> tf.data.Dataset:
    """One rank's pairs (position, serialised record) in the order of training, without end."""
    first = position + (rank - position) % ranks
    places = tf.data.Dataset.range(first, tf.int64.max, ranks)
    order = make_order(source, ranks)
    return tf.data.Dataset.zip(places, _training_records(source, order, rank, position))


def evaluation_batches(
    source: Source, rank: int, ranks: int, batch_size: int, threads: int
) -> tf.data.Dataset:
    """One rank's consecutive share of a split, each example once.

    All ranks yield the same number of batches: short ones are filled up with examples of weight 0,
    which the evaluation does not count.
    """
    share = source.share(rank, ranks)
    records = _read(source, source.segments(share.start, share.stop))
    examples = tf.data.Dataset.zip(tf.data.Dataset.range(share.start, share.stop), records)

    def decode(_: tf.Tensor, serialized: tf.Tensor) -> Batch:
        encoded, label = _checked(serialized, source.classes)
        return _example(images.evaluation_image(encoded, source), label, tf.constant(False))

    batches = ceil(ceil(source.split.examples / ranks) / batch_size)
    filled = (
        _decode(examples, decode, source, source.locate, threads)
        .concatenate(tf.data.Dataset.from_tensors(_blank(source)).repeat())
        .batch(batch_size, drop_remainder=True)
        .take(batches)
    )
    return _finish(filled, source, threads)


def read_image(source: Source, example: int) -> bytes:
    """The encoded image of one example, counted through the split.

    Raises:
        DataError: it cannot be read.
    """
    shard, index = source.locate(example)
    try:
        encoded, _ = parse(next(iter(_read(source, [Segment(shard, index, 1)]))))
    except (StopIteration, tf.errors.OpError) as error:
        reason = first_line(error) if isinstance(error, tf.errors.OpError) else "the shard is short"
        file = source.folder / source.split.shards[shard].file
        raise DataError(f"{file}, record {index}: cannot be read ({reason})") from error
    return bytes(encoded.numpy())


def find_damage(
    source: Source, locate: Callable[[int], tuple[int, int]], places: Iterable[int]
) -> str | None:
    """Name the first example that cannot be used: its shard, index and fault.

    Called when a step failed, with the places that its batch and those decoded ahead may have read.
    """
    for place in places:
        shard, index = locate(place)
        fault = _fault(source, shard, index)
        if fault:
            return f"{source.split.shards[shard].file}, record {index}: {fault}"
    return None


def find_damaged_shard(source: Source, shards: Iterable[int]) -> str | None:
    """Name the first record that cannot be read in some shards, reading each from its start."""
    for number in shards:
        shard, count = source.split.shards[number], 0
        try:
            for _ in tf.data.TFRecordDataset(str(source.folder / shard.file)):
                count += 1
        except tf.errors.OpError as error:
            return f"{shard.file}, record {count}: cannot be read ({first_line(error)})"
        if count != shard.examples:
            return f"{shard.file}: has {count} records, not {shard.examples}"
    return None


def first_line(error: tf.errors.OpError) -> str:
    """The part of TensorFlow's message that says what happened."""
    return str(error.message).splitlines()[0]


def _training_records(source: Source, order: Order, rank: int, position: int) -> tf.data.Dataset:
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


def _read(source: Source, segments: Iterable[Segment]) -> tf.data.Dataset:
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


def _decode(
    examples: tf.data.Dataset,
    decode: Callable[[tf.Tensor, tf.Tensor], Batch],
    source: Source,
    locate: Callable[[int], tuple[int, int]],
    threads: int,
) -> tf.data.Dataset:
    """Decode pairs (place, serialised record) in parallel and in order.

    With `on_corrupt="skip"` one that cannot be decoded is named on the console and becomes an
    example of weight 0. tf.data drops a failing element only from a dataset of its own, so then
    each example is one.
    """
    if source.config.on_corrupt == "fail":
        return examples.map(decode, num_parallel_calls=threads, deterministic=True)

    def name(place: tf.Tensor) -> int:
        fault = find_damage(source, locate, [int(place)])
        print(f"warning: skipped {fault or 'an image that cannot be decoded'}", flush=True)
        return 0

    def replacement(place: tf.Tensor) -> Batch:
        with tf.control_dependencies([tf.py_function(name, [place], tf.int32)]):
            return {key: tf.identity(value) for key, value in _blank(source).items()}

    def one(place: tf.Tensor, serialized: tf.Tensor) -> tf.data.Dataset:
        decoded = tf.data.Dataset.from_tensors((place, serialized)).map(decode).ignore_errors()
        return decoded.concatenate(tf.data.Dataset.from_tensors(place).map(replacement)).take(1)

    return examples.interleave(
        one, cycle_length=threads, num_parallel_calls=threads, deterministic=True
    )


def _example(image: tf.Tensor, label: tf.Tensor, flip: tf.Tensor) -> Batch:
    return {"image": image, "label": label, "weight": tf.constant(1.0), "flip": flip}


def _blank(source: Source) -> Batch:
    size = source.image_size
    image = tf.zeros([size, size, 3], tf.uint8)
    blank = _example(image, tf.constant(0), tf.constant(False))
    return {**blank, "weight": tf.constant(0.0)}


def _finish(batches: tf.data.Dataset, source: Source, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    return batches.prefetch(source.config.prefetch_batches).with_options(options)


def _checked(serialized: tf.Tensor, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
    encoded, label = parse(serialized)
    in_range = tf.debugging.Assert((label >= 0) & (label < classes), ["label out of range", label])
    with tf.control_dependencies([in_range]):
        return encoded, tf.cast(label, tf.int32)


def _fault(source: Source, shard: int, index: int) -> str | None:
    try:
        records = list(_read(source, [Segment(shard, index, 1)]))
        if not records:
            return "the shard ends before it"
        encoded, label = parse(records[0])
        if not 0 <= int(label) < source.classes:
            return f"label {int(label)} is not a class, 0 to {source.classes - 1}"
        images.evaluation_image(encoded, source)
    except tf.errors.OpError as error:
        return f"cannot be read as an image ({first_line(error)})"
    return None
