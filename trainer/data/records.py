"""ImageNet's usual TFRecord schema: one `tf.train.Example` an image, and shards of them.

Keys: image/encoded, image/format (JPEG or PNG), image/height, image/width, image/channels,
image/colorspace, image/filename, image/class/label (from 0), image/class/text.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from trainer.data.manifest import INDEX_EVERY, Shard, Split

_FRAME = 16
"""Bytes that TFRecord adds to a record: its length, and a checksum each of length and data."""


@dataclass(frozen=True)
class Record:
    """One image as it is stored."""

    encoded: bytes
    format: str
    """JPEG or PNG."""
    height: int
    width: int
    label: int
    """Index of the class, from 0."""
    text: str
    """Name of the class."""
    filename: str


def to_example(record: Record) -> bytes:
    """Serialise a record."""
    values: dict[str, bytes | int] = {
        "image/encoded": record.encoded,
        "image/format": record.format.encode(),
        "image/height": record.height,
        "image/width": record.width,
        "image/channels": 3,
        "image/colorspace": b"RGB",
        "image/filename": record.filename.encode(),
        "image/class/label": record.label,
        "image/class/text": record.text.encode(),
    }
    features = {
        key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        if isinstance(value, bytes)
        else tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        for key, value in values.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    # The order of a protocol buffer's map is not fixed unless asked for, and shards are hashed.
    return bytes(example.SerializeToString(deterministic=True))


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


def write_shard(path: Path, records: Iterable[Record]) -> Shard:
    """Write one TFRecord file and describe it."""
    offset, count, index = 0, 0, []
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            serialized = to_example(record)
            if count % INDEX_EVERY == 0:
                index.append(offset)
            writer.write(serialized)
            offset += len(serialized) + _FRAME
            count += 1
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Shard(path.name, count, offset, digest, tuple(index))


def write_split(
    folder: Path, name: str, records: Sequence[Record], shards: int, classes: int
) -> Split:
    """Write the records of a split, in their order, as `shards` files of equal length."""
    bounds = [len(records) * number // shards for number in range(shards + 1)]
    written = tuple(
        write_shard(
            folder / f"{name}-{number:05d}-of-{shards:05d}.tfrecord",
            records[bounds[number] : bounds[number + 1]],
        )
        for number in range(shards)
    )
    counts = [0] * classes
    for record in records:
        counts[record.label] += 1
    return Split(written, tuple(counts), tuple(sorted({record.format for record in records})))
