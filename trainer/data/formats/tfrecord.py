"""Shards: TFRecord files of images, written and read without TensorFlow."""

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import google_crc32c
import xxhash

from trainer.data.example import BrokenRecordError, Record, example_parts, from_example
from trainer.data.formats.record_format import Entry, Kept, Scan, Stored, StoredTarget, Values
from trainer.data.manifest import INDEX_EVERY, Manifest, Shard, Split, SplitCounts

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
FRAME = _HEADER.size + _FOOTER.size
"""Bytes that TFRecord adds to a record: its length, and checksums of length and data."""

READ_BUFFER = 1 << 20
"""Bytes read from storage at once in training."""

_MAX_RECORD_BYTES = 1 << 31
"""Size from which a record is invalid, in bytes: the limit of a protocol buffer."""

UNFIT = "its data do not match their checksum"
"""Fault of a record whose bytes were changed."""


class ShardWriter:
    """Writer of one TFRecord file, from its first record to its last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Unbuffered, because each record is written in one call and is larger than any buffer.
        self._file = path.open("wb", buffering=0)
        self._hash = xxhash.xxh3_128()
        self._bytes, self._examples = 0, 0
        self._offsets: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, *serialized: bytes) -> None:
        """Append a record, given as one or several parts."""
        if self._examples % INDEX_EVERY == 0:
            self._offsets.append(self._bytes)
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
        """Return the description of the file."""
        return Shard(
            self._path.name,
            self._examples,
            self._bytes,
            self._hash.hexdigest(),
            tuple(self._offsets),
        )


@dataclass(frozen=True)
class Frame:
    """One record with its position in a shard."""

    offset: int
    """Byte offset of the record."""
    data: bytes
    fits: bool
    """Whether the data match their checksum."""

    @property
    def end(self) -> int:
        """Byte offset of the next record."""
        return self.offset + len(self.data) + FRAME

    def checked(self) -> bytes:
        """Return the data.

        Raises:
            BrokenRecordError: The data do not match their checksum.
        """
        if not self.fits:
            raise BrokenRecordError(UNFIT)
        return self.data


def read_frames(
    path: Path,
    start: int = 0,
    observe: Callable[[bytes], object] | None = None,
    buffering: int = -1,
) -> Iterator[Frame]:
    """Yield the records of a shard, including those whose data are damaged.

    Args:
        path: TFRecord file.
        start: Byte offset of the first record to read.
        observe: Function to call with all bytes in their order, such as a hash's `update`.
        buffering: Bytes to read at once; -1 is Python's default, which reads records one by one.

    Raises:
        BrokenRecordError: A length does not match its checksum, or the file ends within a record;
            the records after it cannot be found.
        OSError: The file cannot be read.
    """
    with path.open("rb", buffering=buffering) as file:

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
            if check != _masked_crc(header[:8]) or length > _MAX_RECORD_BYTES:
                raise BrokenRecordError("its length does not match its checksum")
            data, footer = read(length), read(_FOOTER.size)
            if len(data) < length or len(footer) < _FOOTER.size:
                raise BrokenRecordError("the file ends within it")
            yield Frame(start, data, _FOOTER.unpack(footer)[0] == _masked_crc(data))
            start += length + FRAME


def read_shard(path: Path) -> Iterator[bytes]:
    """Yield the serialised records of a shard, checked.

    Raises:
        BrokenRecordError: A checksum does not match, or the file ends within a record.
        OSError: The file cannot be read.
    """
    for frame in read_frames(path):
        yield frame.checked()


@dataclass(frozen=True)
class TFRecordFormat:
    """TFRecord files, of which each is one block; a record is a serialised `tf.train.Example`. See
    `RecordFormat`.
    """

    fields = ("string",)

    def parse(self, values: Values, target: StoredTarget) -> tuple[Any, Any]:
        """See `RecordFormat.parse`."""
        # Processes that prepare or verify a data set do not need it.
        import tensorflow as tf  # noqa: PLC0415

        (serialized,) = values
        stored = tf.io.FixedLenFeature([], target.type, target.default)
        wanted = {"image/encoded": tf.io.FixedLenFeature([], tf.string), target.key: stored}
        features = tf.io.parse_example(serialized, wanted)
        return features["image/encoded"], features[target.key]

    def record(self, values: Values) -> Record:
        """See `RecordFormat.record`."""
        return from_example(*values)

    def blocks(self, shard: Shard) -> Sequence[int]:
        """See `RecordFormat.blocks`."""
        return (shard.examples,)

    def entries(self, shard: Shard) -> list[Entry]:
        """See `RecordFormat.entries`."""
        firsts = range(0, len(shard.offsets) * INDEX_EVERY, INDEX_EVERY)
        return [Entry(0, first, min(INDEX_EVERY, shard.examples - first)) for first in firsts]

    def where(self, block: int, record: int | None) -> str:
        """See `RecordFormat.where`."""
        del block
        return f"record {record}"

    def reader(self, streams: int) -> "TFRecordReader":
        """See `RecordFormat.reader`."""
        return TFRecordReader(streams)

    def scan(self, path: str, file: str, known: Shard | None = None) -> Scan:
        """See `RecordFormat.scan`."""
        del known
        return _TFRecordScan(Path(path), file)


TFRECORDS: Final = TFRecordFormat()


def tfrecords(manifest: Manifest) -> TFRecordFormat:
    """Return the format of any data set of TFRecords."""
    del manifest
    return TFRECORDS


class TFRecordReader:
    """See `RecordReader`. Where a window ended, the next window of the stream begins, so its
    offset is kept: from one in the manifest, up to 63 records before it would be read again.
    """

    def __init__(self, streams: int) -> None:
        self._ends = Kept[int](streams)

    def records(
        self, path: str, shard: Shard, block: int, first: int, count: int
    ) -> Iterator[Values]:
        """See `RecordReader.records`."""
        del block
        start, skipped = self._ends.take((shard.file, first)), 0
        if start is None:
            start, skipped = shard.offsets[first // INDEX_EVERY], first % INDEX_EVERY
        frame = None
        for frame in islice(
            read_frames(Path(path), start, buffering=READ_BUFFER), skipped, skipped + count
        ):
            yield (frame.checked(),)
        if frame is not None:
            self._ends.keep((shard.file, first + count), frame.end)


class _TFRecordScan:
    """See `Scan`."""

    def __init__(self, path: Path, file: str) -> None:
        self._path, self._file = path, file
        self._hash, self._records, self._offsets = xxhash.xxh3_128(), 0, list[int]()

    def __iter__(self) -> Iterator[Stored]:
        for frame in read_frames(self._path, observe=self._hash.update):
            if self._records % INDEX_EVERY == 0:
                self._offsets.append(frame.offset)
            where = self.where
            self._records += 1
            yield Stored(where, (frame.data,)) if frame.fits else Stored(where, fault=UNFIT)

    @property
    def where(self) -> str:
        """See `Scan.where`."""
        return f"record {self._records}"

    def shard(self) -> Shard:
        """See `Scan.shard`."""
        size = self._path.stat().st_size
        return Shard(self._file, self._records, size, self._hash.hexdigest(), tuple(self._offsets))


def write_shard(path: Path, records: Iterable[Record], counts: SplitCounts) -> Shard:
    """Write one TFRecord file, count its records in `counts`, and return its description."""
    with ShardWriter(path) as writer:
        for record in records:
            writer.write(*example_parts(record))
            counts.add(record.label, record.format, record.height, record.width)
    return writer.shard()


def write_split(
    folder: Path, name: str, records: Sequence[Record], shards: int, classes: int
) -> Split:
    """Write the records of a split, in their order, as `shards` files of equal length."""
    bounds = [len(records) * number // shards for number in range(shards + 1)]
    split_counts = SplitCounts.empty(classes)
    written = tuple(
        write_shard(
            folder / shard_name(name, number, shards),
            records[bounds[number] : bounds[number + 1]],
            split_counts,
        )
        for number in range(shards)
    )
    return split_counts.split(written)


def shard_name(split: str, number: int, shards: int) -> str:
    """Return the usual name of a shard, which other tools expect."""
    return f"{split}-{number:05d}-of-{shards:05d}.tfrecord"


def _masked_crc(data: bytes) -> int:
    return _masked(google_crc32c.value(data))


def _masked(crc: int) -> int:
    """Return TFRecord's masked CRC32C, rotated and shifted so that records may contain CRCs."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
