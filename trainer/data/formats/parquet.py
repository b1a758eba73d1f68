"""Parquet files: a row group is read as a whole, so the order permutes row groups.

The only module that imports pyarrow. Nothing here imports TensorFlow.
"""

import json
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

LARGEST_ROW_GROUP: Final = 256 << 20
"""Most bytes of a row group's images, uncompressed: each stream may hold one besides its windows.
Hugging Face's `datasets` writes 100 images into a row group, about 10 MB of photographs."""

_CHUNK: Final = 4 << 20
"""Bytes read at once to compute the checksum of a file."""

_REWRITE: Final = "write the files again with fewer rows in a row group, such as 100"


UNFIT: Final = "its images and labels do not match their checksum"
"""Fault of a row group of which bytes were changed."""


class UnfitFileError(ValueError):
    """A Parquet file that cannot be trained on; the message says why and what to do."""


@dataclass(frozen=True)
class Layout:
    """What the schema of a Parquet file says."""

    types: dict[str, str]
    """Type of each column."""
    features: dict[str, dict[str, Any]]
    """Features that Hugging Face's `datasets` described in the metadata, by column."""


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
        with _explained(), pa.OSFile(path) as file:
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
        with _explained():
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


def read_layout(path: str) -> Layout:
    """Read the schema of a file.

    Raises:
        UnfitFileError: It is encrypted or no Parquet file.
        OSError: It cannot be read.
    """
    with Path(path).open("rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 4, 0))
        mark = file.read()
    if mark == b"PARE":
        raise UnfitFileError("is encrypted; write it again without encryption")
    try:
        with _explained():
            schema = pq.read_schema(path)
    except BrokenRecordError as error:
        raise UnfitFileError(f"is not a Parquet file ({error}); copy it again") from error
    described = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(described).get("info", {}).get("features", {})
    except (ValueError, AttributeError):
        features = {}
    features = features if isinstance(features, dict) else {}
    return Layout(
        {field.name: str(field.type) for field in schema},
        {name: feature for name, feature in features.items() if isinstance(feature, dict)},
    )


def find_columns(layout: Layout, image: str | None, label: str | None) -> Columns:
    """Return the columns to train on: those that are named, or that `datasets` described as image
    and class, or that are called image and label, or the only ones of a fitting type.

    Args:
        layout: Schema of a file.
        image: Name of the image column, or None.
        label: Name of the label column, or None.

    Raises:
        UnfitFileError: A column is not there, has no fitting type or is ambiguous.
    """
    images = [name for name, kind in layout.types.items() if _image_field(kind) is not None]
    labels = [name for name, kind in layout.types.items() if "int" in kind.partition("<")[0]]
    found_image = _choose(layout, "image", image, images, "Image", ("image", "img"))
    found_label = _choose(layout, "label", label, labels, "ClassLabel", ("label", "labels"))
    return Columns(found_image, found_label, _image_field(layout.types[found_image]) or "")


def check_row_groups(path: str, columns: Columns) -> int:
    """Return the number of rows of a file whose row groups are small enough.

    Raises:
        UnfitFileError: A row group is too large, or encrypted.
        OSError: The file cannot be read.
    """
    with _explained():
        footer = pq.read_metadata(path)
        # The metadata of an encrypted column abort the process, but reading a row raises an error.
        if footer.num_row_groups:
            _check_readable(path, columns)
    leaves = [footer.schema.column(number).path for number in range(footer.num_columns)]
    leaf = leaves.index(columns.leaf)
    for part in range(footer.num_row_groups):
        size = footer.row_group(part).column(leaf).total_uncompressed_size
        if size > LARGEST_ROW_GROUP:
            raise UnfitFileError(
                f"row group {part}: has {size / 1e6:,.0f} MB of images, more than"
                f" {LARGEST_ROW_GROUP / 1e6:,.0f} MB, which is too much to hold for each stream;"
                f" {_REWRITE}"
            )
    return int(footer.num_rows)


def _check_readable(path: str, columns: Columns) -> None:
    parquet = pq.ParquetFile(path, buffer_size=1 << 20)
    try:
        next(parquet.iter_batches(1, [0], [columns.leaf, columns.label]), None)
    except OSError as error:
        if "crypt" in str(error):
            raise UnfitFileError(
                f"has encrypted columns ({_line(error)}); write it again without encryption"
            ) from error
        # Anything else the scan names with its row group.


def _choose(
    layout: Layout,
    what: str,
    named: str | None,
    fitting: list[str],
    feature: str,
    usual: tuple[str, ...],
) -> str:
    option = f"--{what}-column"
    columns = ", ".join(f"{name} ({kind})" for name, kind in layout.types.items())
    if named is not None:
        if named not in layout.types:
            raise UnfitFileError(f"has no column {named!r} ({option}); its columns are {columns}")
        if named not in fitting:
            wanted = "encoded images" if what == "image" else "integers"
            raise UnfitFileError(
                f"its column {named!r} is not one of {wanted}; its columns are {columns}"
            )
        return named
    described = [name for name in fitting if layout.features.get(name, {}).get("_type") == feature]
    by_name = [name for name in usual if name in fitting]
    for candidates in (described, by_name[:1], fitting):
        if len(candidates) == 1:
            return candidates[0]
        if candidates and candidates is described:
            break
    raise UnfitFileError(f"which column is the {what} is not clear; name it with {option}. Its"
                         f" columns are {columns}")  # fmt: skip


def _image_field(kind: str) -> str | None:
    """Return the field with encoded images of a type, "" for the column itself, or None."""
    if kind in ("binary", "large_binary"):
        return ""
    if kind.startswith("struct<") and any(
        f"bytes: {binary}" in kind for binary in ("binary", "large_binary")
    ):
        return "bytes"
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
def _explained() -> Iterator[None]:
    """Turn pyarrow's errors into `BrokenPartError`, or into an OSError of the system."""
    try:
        yield
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from error
        raise BrokenPartError(_line(error)) from error
    except (pa.ArrowException, MemoryError) as error:
        raise BrokenPartError(_line(error)) from error


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
