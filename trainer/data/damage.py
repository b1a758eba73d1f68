"""Which record is damaged, asked when something could not be read."""

from collections.abc import Callable, Iterable

import tensorflow as tf

from trainer.data import images
from trainer.data.order import Segment
from trainer.data.reading import parse, read_segments
from trainer.data.source import Source
from trainer.errors import DataError


def read_image(source: Source, example: int) -> bytes:
    """The encoded image of one example, counted through the split.

    Raises:
        DataError: it cannot be read.
    """
    shard, index = source.locate(example)
    try:
        encoded, _ = parse(next(iter(read_segments(source, [Segment(shard, index, 1)]))))
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


def _fault(source: Source, shard: int, index: int) -> str | None:
    try:
        records = list(read_segments(source, [Segment(shard, index, 1)]))
        if not records:
            return "the shard ends before it"
        encoded, label = parse(records[0])
        first = source.first_label
        if not first <= int(label) < first + source.classes:
            return f"label {int(label)} is not a class, {first} to {first + source.classes - 1}"
        images.evaluation_image(encoded, source)
    except tf.errors.OpError as error:
        return f"cannot be read as an image ({first_line(error)})"
    return None
