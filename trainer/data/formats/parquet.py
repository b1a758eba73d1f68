"""Parquet files: a row group is read as a whole, so the order permutes row groups.

Only this module and parquet_files.py import pyarrow. Nothing here imports TensorFlow.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from trainer.data.example import BrokenRecordError, bare_example
from trainer.data.formats.record_format import BrokenPartError, Place, Stored
from trainer.data.manifest import Columns, Shard

_CHUNK: Final = 4 << 20
"""Bytes read at once to compute the checksum of a file."""

UNFIT: Final = "its images and labels do not match their checksum"
"""Fault of a row group of which bytes were changed."""


@dataclass(frozen=True)
class RowGroup:
    """The images and labels of a row group."""

    images: pa.Array
    """Encoded images, binary."""
    labels: pa.Array
    """Labels, int64."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _ends(self) -> np.ndarray[Any, Any]:
        """Where the images begin in their buffer, and where the last one ends."""
        _, offsets, _ = self.images.buffers()
        width = np.int64 if pa.types.is_large_binary(self.images.type) else np.int32
        begin, end = self.images.offset, self.images.offset + len(self.images)
        return np.frombuffer(offsets, width)[begin : end + 1] if offsets else np.zeros(1, width)

    def digest(self) -> str:
        """Return XXH3-64 of labels, sizes of images and images, in hexadecimal."""
        ends, (_, _, data) = self._ends, self.images.buffers()
        digest = xxhash.xxh3_64(self.labels.fill_null(-1).to_numpy().tobytes())
        digest.update(np.diff(ends).astype("<i8").tobytes())
        if data:
            digest.update(memoryview(data)[int(ends[0]) : int(ends[-1])])
        return str(digest.hexdigest())

    def fault(self, row: int) -> str | None:
        """Return why a row cannot be trained on, or None."""
        if not self.labels[row].is_valid:
            return "has no label; leave such rows out when the files are written"
        if not self.images[row].is_valid or not self.images[row].as_buffer().size:
            return (
                "has no image in it, at most a path; write the files with the images inside, as"
                " datasets' push_to_hub and to_parquet with embed_external_files do"
            )
        return None

    def records(self, first: int, count: int) -> Iterator[bytes]:
        """Yield some rows without a fault as serialised records."""
        # Through Python's buffers, because a scalar of Arrow costs several microseconds.
        data = memoryview(self.images.buffers()[2])
        ends = self._ends[first : first + count + 1].tolist()
        labels = self.labels.slice(first, count).to_pylist()
        for (begin, end), label in zip(pairwise(ends), labels, strict=True):
            yield bare_example(data[begin:end], label)


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet files, of which each row group is a part. See `RecordFormat`."""

    columns: Columns

    def parts(self, shard: Shard) -> Sequence[int]:
        """See `RecordFormat.parts`."""
        return shard.index

    def places(self, shard: Shard) -> list[Place]:
        """See `RecordFormat.places`."""
        return [Place(part, 0, rows) for part, rows in enumerate(shard.index)]

    def begin(self, first: int) -> int:
        """See `RecordFormat.begin`: the row itself."""
        return first

    def where(self, part: int, record: int | None) -> str:
        """See `RecordFormat.where`."""
        return f"row group {part}" + ("" if record is None else f", row {record}")

    def reader(self, streams: int) -> "ParquetReader":
        """See `RecordFormat.reader`."""
        return ParquetReader(self, streams)

    def scan(self, path: str, file: str, known: Shard | None = None) -> "ParquetScan":
        """See `RecordFormat.scan`."""
        return ParquetScan(self, path, file, known)

    def read(self, path: str, part: int, *, checked: bool = False) -> RowGroup:
        """Read a row group.

        Args:
            path: File to read.
            part: Row group.
            checked: Whether to compare pages with their checksums, where the file has them.

        Raises:
            BrokenPartError: It cannot be decoded.
            OSError: The file cannot be read.
        """
        with explained(), pa.OSFile(path) as file:
            parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=checked)
            if part >= parquet.num_row_groups:
                raise BrokenPartError("the file ends before it")
            wanted = [self.columns.leaf, self.columns.label]
            table = parquet.read_row_group(part, wanted, use_threads=False).combine_chunks()
            images = table.column(self.columns.image)
            if self.columns.field:
                (images,) = images.flatten()
            labels = table.column(self.columns.label).cast(pa.int64())
            return RowGroup(_whole(images), _whole(labels))


class ParquetReader:
    """See `RecordReader`. A window usually ends inside a row group, of which the next window of the
    stream begins with the rest, so that row group is kept.
    """

    def __init__(self, layout: ParquetFormat, streams: int) -> None:
        self._format, self._most = layout, streams
        self._kept: OrderedDict[tuple[str, int], RowGroup] = OrderedDict()
        self._lock = threading.Lock()

    def records(
        self, path: str, shard: Shard, part: int, first: int, count: int
    ) -> Iterator[bytes]:
        """See `RecordReader.records`."""
        with self._lock:
            group = self._kept.pop((path, part), None)
        if group is None:
            group = self._format.read(path, part)
            if len(group) != shard.index[part] or group.digest() != shard.row_groups[part]:
                raise BrokenPartError(UNFIT)
        if first + count < len(group):
            with self._lock:
                self._kept[path, part] = group
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return group.records(first, count)


class ParquetScan:
    """See `Scan`."""

    def __init__(self, layout: ParquetFormat, path: str, file: str, known: Shard | None) -> None:
        self._format, self._path, self._file, self._known = layout, path, file, known
        self._rows, self._digests = list[int](), list[str]()
        self._xxh128 = ""

    def __iter__(self) -> Iterator[Stored]:
        # First, so that the row groups are then read from the system's cache.
        self._xxh128 = _hash(self._path)
        with explained():
            footer = pq.read_metadata(self._path)
        for part in range(footer.num_row_groups):
            rows, where = footer.row_group(part).num_rows, self.where
            self._rows.append(rows)
            try:
                group = self._read(part)
            except BrokenRecordError as error:
                yield Stored(where, b"", str(error), rows)
                continue
            for row in range(rows):
                fault = group.fault(row)
                record = b"" if fault else next(group.records(row, 1))
                yield Stored(self._format.where(part, row), record, fault)

    def _read(self, part: int) -> RowGroup:
        """Read the next row group.

        Raises:
            BrokenRecordError: It cannot be decoded, or is not the one in the manifest.
        """
        self._digests.append("")
        try:
            group = self._format.read(self._path, part, checked=True)
        except BrokenRecordError as error:
            raise BrokenRecordError(f"cannot be read ({error})") from error
        self._digests[part] = group.digest()
        known = self._known.row_groups[part : part + 1] if self._known else ()
        if known not in ((), (self._digests[part],)):
            raise BrokenRecordError(UNFIT)
        return group

    @property
    def where(self) -> str:
        """See `Scan.where`."""
        return self._format.where(len(self._rows), None)

    def shard(self) -> Shard:
        """See `Scan.shard`."""
        size = Path(self._path).stat().st_size
        rows, digests = tuple(self._rows), tuple(self._digests)
        return Shard(self._file, sum(rows), size, self._xxh128, rows, digests)

    def index_fault(self, shard: Shard) -> str | None:
        """See `Scan.index_fault`."""
        if tuple(self._rows) != shard.index:
            return "its row groups have other numbers of rows than those in the manifest"
        return None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)


def _hash(path: str) -> str:
    digest = xxhash.xxh3_128()
    with Path(path).open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def explained() -> Iterator[None]:
    """Turn pyarrow's errors into `BrokenPartError`, or into an OSError of the system."""
    try:
        yield
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from error
        raise BrokenPartError(first_line(error)) from error
    except (pa.ArrowException, MemoryError) as error:
        raise BrokenPartError(first_line(error)) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
