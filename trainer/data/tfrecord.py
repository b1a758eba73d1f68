"""ImageNet's usual TFRecord schema: one `tf.train.Example` an image, and shards of them.

Keys: image/encoded, image/format (JPEG or PNG), image/height, image/width, image/channels,
image/colorspace, image/filename, image/class/label, image/class/text, and image/class/synset where
there is one. Nothing here needs TensorFlow, so a process that writes shards stays small.
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import google_crc32c
import xxhash
from google.protobuf.message import DecodeError

from trainer.data.example import Example
from trainer.data.manifest import INDEX_EVERY, Shard, Split
from trainer.data.split_counts import Tally
from trainer.data.wire import bytes_feature, bytes_header, example_header, int_feature, known_text

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
FRAME = _HEADER.size + _FOOTER.size
"""Bytes that TFRecord adds to a record: its length, and a checksum each of length and data."""

_LARGEST = 1 << 31
"""Bytes of a record that cannot be meant: the largest protocol buffer."""

UNFIT = "its data do not fit their checksum"
"""What is wrong with a record whose bytes were changed."""

_READ_KEYS = (
    *("image/encoded", "image/format", "image/height", "image/width", "image/filename"),
    *("image/class/label", "image/class/text", "image/class/synset"),
)


@dataclass(frozen=True)
class Record:
    """One image as it is stored."""

    encoded: bytes
    format: str
    """JPEG or PNG."""
    height: int
    width: int
    label: int
    """Index of the class, as stored: from 0, or from 1 in shards of others."""
    text: str
    """Name of the class."""
    filename: str
    synset: str = ""
    """WordNet's identifier of the class, in ImageNet."""


class BrokenRecordError(ValueError):
    """A record that cannot be read; the message says how."""


def to_example(record: Record) -> bytes:
    """Serialise a record."""
    return b"".join(example_parts(record))


def example_parts(record: Record) -> tuple[bytes, bytes, bytes]:
    """Serialise a record: what stands before its image, the image, and what stands behind it.

    The features are in the order of their names, as protobuf has them if it is asked for the same
    bytes each time.
    """
    encoded = record.encoded
    before = (
        int_feature("image/channels", 3)
        + int_feature("image/class/label", record.label)
        + (known_text("image/class/synset", record.synset) if record.synset else b"")
        + known_text("image/class/text", record.text)
        + known_text("image/colorspace", "RGB")
        + bytes_header("image/encoded", len(encoded))
    )
    behind = (
        # A name that is not UTF-8 is kept as the bytes that the file system gave.
        bytes_feature("image/filename", record.filename.encode(errors="surrogateescape"))
        + known_text("image/format", record.format)
        + int_feature("image/height", record.height)
        + int_feature("image/width", record.width)
    )
    head = example_header(len(before) + len(encoded) + len(behind))
    return head + before, encoded, behind


def from_example(serialized: bytes) -> Record:
    """Read a record of ours or of another writer.

    What another writer left out is empty or 0, except the image and its label.

    Raises:
        BrokenRecordError: not an Example, or one without an image or a label.
    """
    try:
        feature = Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise BrokenRecordError(f"is not a tf.train.Example ({error})") from error
    values: dict[str, Any] = {}
    for key in _READ_KEYS:
        kind = feature[key].WhichOneof("kind") if key in feature else None
        found = getattr(feature[key], kind).value if kind else ()
        if found:
            values[key] = found[0]
    encoded, label = values.get("image/encoded"), values.get("image/class/label")
    if not isinstance(encoded, bytes) or not encoded:
        raise BrokenRecordError("has no image (image/encoded)")
    if not isinstance(label, int):
        raise BrokenRecordError("has no label (image/class/label)")

    def text(key: str) -> str:
        value = values.get(key, b"")
        return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)

    return Record(
        encoded=encoded,
        format=text("image/format").upper(),
        height=int(values.get("image/height", 0)),
        width=int(values.get("image/width", 0)),
        label=label,
        text=text("image/class/text"),
        filename=text("image/filename"),
        synset=text("image/class/synset"),
    )


class ShardWriter:
    """One TFRecord file while it is written, from its first record to its last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Unbuffered, as records are written in one call each and are larger than any buffer.
        self._file = path.open("wb", buffering=0)
        self._hash = xxhash.xxh3_128()
        self._bytes, self._examples = 0, 0
        self._index: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, *serialized: bytes) -> None:
        """Append a record, which may be given in parts."""
        if self._examples % INDEX_EVERY == 0:
            self._index.append(self._bytes)
        size, crc = 0, 0
        for part in serialized:
            size += len(part)
            crc = google_crc32c.extend(crc, part)
        length = struct.pack("<Q", size)
        head = length + _FOOTER.pack(_masked(google_crc32c.value(length)))
        parts = (head, *serialized, _FOOTER.pack(_masked(crc)))
        size += FRAME
        written = os.writev(self._file.fileno(), parts)
        if written < size:
            rest = memoryview(b"".join(parts))
            while written < size:
                written += self._file.write(rest[written:]) or 0
        for part in parts:
            self._hash.update(part)
        self._examples += 1
        self._bytes += size

    def sync(self) -> None:
        """Wait until everything is on disk."""
        os.fsync(self._file.fileno())

    def shard(self) -> Shard:
        """The description of what was written."""
        return Shard(
            self._path.name,
            self._examples,
            self._bytes,
            self._hash.hexdigest(),
            tuple(self._index),
        )


@dataclass(frozen=True)
class Frame:
    """One record as it stands in a shard."""

    offset: int
    """Byte at which it begins."""
    data: bytes
    fits: bool
    """Whether the data fit their checksum."""

    def checked(self) -> bytes:
        """The data.

        Raises:
            BrokenRecordError: they do not fit their checksum.
        """
        if not self.fits:
            raise BrokenRecordError(UNFIT)
        return self.data


def read_frames(
    path: Path, start: int = 0, observe: Callable[[bytes], object] | None = None
) -> Iterator[Frame]:
    """The records of a shard, those whose data are damaged as well.

    Args:
        path: the TFRecord file.
        start: byte at which a record begins.
        observe: is told all bytes in their order, such as a hash's `update`.

    Raises:
        BrokenRecordError: a length that does not fit its checksum, or a file that ends within a
            record; nothing after it can be found.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:

        def read(size: int) -> bytes:
            data = file.read(size)
            if observe:
                observe(data)
            return data

        file.seek(start)
        while header := read(_HEADER.size):
            if len(header) < _HEADER.size:
                raise BrokenRecordError("the file ends within it")
            length, check = _HEADER.unpack(header)
            if check != _masked_crc(header[:8]) or length > _LARGEST:
                raise BrokenRecordError("its length does not fit its checksum")
            data, footer = read(length), read(_FOOTER.size)
            if len(data) < length or len(footer) < _FOOTER.size:
                raise BrokenRecordError("the file ends within it")
            yield Frame(start, data, _FOOTER.unpack(footer)[0] == _masked_crc(data))
            start += length + FRAME


def read_shard(path: Path, start: int = 0) -> Iterator[bytes]:
    """The serialised records of a shard, checked.

    Args:
        path: the TFRecord file.
        start: byte at which a record begins.

    Raises:
        BrokenRecordError: a checksum that does not fit, or a file that ends within a record.
        OSError: the file cannot be read.
    """
    for frame in read_frames(path, start):
        yield frame.checked()


def write_shard(path: Path, records: Iterable[Record], tally: Tally) -> Shard:
    """Write one TFRecord file, count its records in `tally`, and describe it."""
    with ShardWriter(path) as writer:
        for record in records:
            writer.write(*example_parts(record))
            tally.add(record.label, record.format, record.height, record.width)
    return writer.shard()


def write_split(
    folder: Path, name: str, records: Sequence[Record], shards: int, classes: int
) -> Split:
    """Write the records of a split, in their order, as `shards` files of equal length."""
    bounds = [len(records) * number // shards for number in range(shards + 1)]
    tally = Tally.empty(classes)
    written = tuple(
        write_shard(
            folder / shard_name(name, number, shards),
            records[bounds[number] : bounds[number + 1]],
            tally,
        )
        for number in range(shards)
    )
    return tally.split(written)


def shard_name(split: str, number: int, shards: int) -> str:
    """The usual name of a shard, so that others find what they expect."""
    return f"{split}-{number:05d}-of-{shards:05d}.tfrecord"


def _masked_crc(data: bytes) -> int:
    return _masked(google_crc32c.value(data))


def _masked(crc: int) -> int:
    """TFRecord's checksum from CRC32C: rotated and shifted so that no record contains its own."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
