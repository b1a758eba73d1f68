"""From shards to batches of uint8 on the device.

    order (pure)  ->  windows of records  ->  chunks, one record from each stream in turn
                  ->  decode, crop, resize (parallel, in order)  ->  batches  ->  prefetch

Every random choice is stateless and keyed by (seed, position), so it is the same after any resume
and with any parallelism. The host decodes, crops and augments; flip, normalisation and mixtures
happen on the device, which receives a quarter of the bytes of float32.
"""

from collections.abc import Callable
from math import ceil
from typing import Any, TypeVar, cast

import tensorflow as tf

from trainer.data import images
from trainer.data.augmentations.table import drawn_patch
from trainer.data.corruption import find_damage
from trainer.data.formats.record_format import Values
from trainer.data.order import Order
from trainer.data.reader import locator, read_segments, training_records
from trainer.data.source import CHUNK, Source, decoded_at_once
from trainer.data.targets import target_decoder
from trainer.errors import warn

F = TypeVar("F", bound=Callable[..., tf.data.Dataset])
Batch = dict[str, Any]
"""image uint8 [b, size, size, 3]; target, of the task, for classification int32 [b];
weight float32 [b], 0 for images that do not count; flip bool [b], whether to mirror an image; and
patch float32 [b, 5] if images are mixed, see `trainer.data.augmentations.table.Patch`."""


def make_order(source: Source, ranks: int) -> Order:
    """Return the training order of a source for a number of ranks."""
    config = source.config
    return Order(
        source.counts, config.streams, config.shuffle_window, source.seed, ranks, source.begun
    )


def without_autograph(function: F) -> F:
    """Build the data sets of a function without AutoGraph: their functions are plain TensorFlow,
    and the conversion would take seconds at every start.
    """
    return cast("F", tf.autograph.experimental.do_not_convert(function))


@without_autograph
def training_batches(
    source: Source, rank: int, ranks: int, batch_size: int, position: int, threads: int
) -> tf.data.Dataset:
    """Return an endless data set of one rank's batches.

    Args:
        source: Split to read.
        rank: Number of this rank.
        ranks: Number of ranks that share the data.
        batch_size: Images per batch of this rank.
        position: Number of examples that all ranks together have read before.
        threads: Images to decode at once.
    """
    examples = training_examples(source, rank, ranks, position)

    targets = target_decoder(source.task)

    def decode(own: tf.Tensor, encoded: tf.Tensor, stored: tf.Tensor) -> Batch:
        image, target = targets.training(encoded, stored, source, own)
        example = _example(image, target, images.flips(source, own))
        return {**example, **drawn_patch(source, own)}

    blank = {**_blank(source), **drawn_patch(source, tf.constant(0))}
    locate = locator(source, make_order(source, ranks))
    decoded = _decode(examples, decode, blank, source, locate, threads)
    batches = decoded.rebatch(batch_size, drop_remainder=True)
    if source.config.on_corrupt == "skip":
        batches = batches.map(fill_places)
    return _finish(batches, source, threads)


def fill_places(batch: Batch) -> Batch:
    """Put other images of a batch, in turn, into the places of those that do not count: batch norm
    takes its statistics from all images, whatever their weight. A batch without any stays as it is.
    """
    counts = batch["weight"] > 0
    usable = tf.where(counts)[:, 0]
    turn = tf.cumsum(tf.cast(~counts, tf.int64), exclusive=True)
    # A last place keeps the indices valid if nothing counts; they are then not used.
    filler = tf.gather(tf.concat([usable, [0]], 0), turn % tf.maximum(tf.size(usable, tf.int64), 1))
    place = tf.range(tf.size(counts, tf.int64))
    index = tf.where(counts | (tf.size(usable) == 0), place, filler)
    return {**batch, **{key: tf.gather(batch[key], index) for key in ("image", "flip")}}


def training_examples(source: Source, rank: int, ranks: int, position: int) -> tf.data.Dataset:
    """Return an endless data set of one rank's examples in order, in chunks: positions, int64 [n],
    and a tuple of the records' values, a tensor [n] for each field of the format.
    """
    records = training_records(source, make_order(source, ranks), rank, position)
    return _at_positions(records, position + (rank - position) % ranks, ranks)


@without_autograph
def evaluation_batches(
    source: Source, rank: int, ranks: int, batch_size: int, threads: int
) -> tf.data.Dataset:
    """Return a data set of one rank's consecutive share of a split, each example once.

    All ranks yield the same number of batches: short batches are padded with examples of weight 0,
    which the evaluation does not count.
    """
    share = source.share(rank, ranks)
    records = read_segments(source, source.segments(share.start, share.stop))
    examples = _at_positions(records, share.start, 1)

    targets = target_decoder(source.task)

    def decode(_: tf.Tensor, encoded: tf.Tensor, stored: tf.Tensor) -> Batch:
        return _example(*targets.evaluation(encoded, stored, source), tf.constant(False))

    blank = _blank(source)
    batches = ceil(ceil(source.split.examples / ranks) / batch_size)
    filled = (
        _decode(examples, decode, blank, source, source.locate, threads)
        .concatenate(tf.data.Dataset.from_tensors(blank).repeat().batch(batch_size))
        .rebatch(batch_size, drop_remainder=True)
        .take(batches)
    )
    return _finish(filled, source, threads)


def _at_positions(records: tf.data.Dataset, first: int, step: int) -> tf.data.Dataset:
    """Return chunks of records with their positions, which begin at `first`."""

    def count(position: tf.Tensor, chunk: Values) -> tuple[tf.Tensor, Any]:
        end = position + step * tf.size(chunk[0], tf.int64)
        return end, (tf.range(position, end, step), chunk)

    return records.scan(tf.constant(first, tf.int64), count)


def _decode(
    examples: tf.data.Dataset,
    decode: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Batch],
    blank: Batch,
    source: Source,
    locate: Callable[[int], tuple[int, int]],
    threads: int,
) -> tf.data.Dataset:
    """Decode chunks in parallel and in order, into parts of batches.

    One call of a function decodes a whole chunk. A call for each image would wake threads far more
    often, which costs as much CPU time as reading, verifying and shuffling the image.

    With `on_corrupt="skip"` an image that cannot be decoded is named on the console and replaced by
    a black one of weight 0: `fill_places` fills its place in training, and an evaluation does not
    count it. tf.data can drop a failing element only from a data set of its own, so each example
    then becomes one.

    Args:
        examples: Chunks: positions, int64 [n], and the records' values, tensors [n].
        decode: From position, encoded image and stored target to an example.
        blank: An example that does not count.
        source: Split that the records are from.
        locate: From a position to the block and the index of its record.
        threads: Images to decode at once.
    """
    targets = target_decoder(source.task)
    signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, blank)

    def decode_chunk(positions: tf.Tensor, values: Values) -> Batch:
        decoded: Batch = tf.map_fn(
            lambda example: decode(*example),
            (positions, *targets.parse(values, source)),
            parallel_iterations=2 * threads,
            fn_output_signature=signature,
        )
        return decoded

    if source.config.on_corrupt == "fail":
        calls = decoded_at_once(threads)
        return examples.map(decode_chunk, num_parallel_calls=calls, deterministic=True)

    def name(position: tf.Tensor) -> int:
        fault = find_damage(source, locate, [int(position)])
        warn(f"skipped {fault or 'an image that cannot be decoded'}")
        return 0

    def replacement(position: tf.Tensor) -> Batch:
        with tf.control_dependencies([tf.py_function(name, [position], tf.int32)]):
            return {key: tf.identity(value) for key, value in blank.items()}

    def decode_one(position: tf.Tensor, values: Values) -> Batch:
        return decode(position, *targets.parse(values, source))

    def decode_or_replace(position: tf.Tensor, values: Values) -> tf.data.Dataset:
        example = tf.data.Dataset.from_tensors((position, values))
        replaced = tf.data.Dataset.from_tensors(position).map(replacement)
        return example.map(decode_one).ignore_errors().concatenate(replaced).take(1)

    return (
        examples.unbatch()
        .interleave(
            decode_or_replace, cycle_length=threads, num_parallel_calls=threads, deterministic=True
        )
        .batch(CHUNK)
    )


def _example(image: tf.Tensor, target: tf.Tensor, flip: tf.Tensor) -> Batch:
    return {"image": image, "target": target, "weight": tf.constant(1.0), "flip": flip}


def _blank(source: Source) -> Batch:
    size = source.image_size
    image = tf.zeros([size, size, 3], tf.uint8)
    blank = _example(image, target_decoder(source.task).blank(source), tf.constant(False))
    return {**blank, "weight": tf.constant(0.0)}


def _finish(batches: tf.data.Dataset, source: Source, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    return batches.prefetch(source.config.prefetch_batches).with_options(options)
