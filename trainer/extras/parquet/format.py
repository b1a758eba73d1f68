"""Parquet files: a row group is read as a whole, so each is a block that the order permutes.

A row is an image and its label, as Arrow holds them. Nothing here imports TensorFlow.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from common.program import load
from trainer.data.example import BrokenRecordError, Record
from trainer.data.formats.record_format import (
    BrokenBlockError,
    Entry,
    Kept,
    Stored,
    StoredTarget,
    Values,
)
from trainer.data.manifest import Manifest, Shard
from trainer.data.pixels.treatment import RejectedError
from trainer.errors import DataError
from trainer.leaves import TASKS
from trainer.task_descriptions import RowTarget

UNFIT: Final = "its images and labels do not match their checksum"
"""Fault of a row group of which bytes were changed."""

NUMBERS: Final = "numbers"
NAMES: Final = "names"
"""Forms of a list of labels: integers from 0, or texts, each the name of a class."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file that training reads."""

    image: str
    label: str
    """Column of labels, or of targets that a task reads."""
    field: str = ""
    """Field of the image column that has the encoded image; empty if the column itself has it."""
    target: str = ""
    """Key of the feature that the rows of `label` become; empty for labels. See `RowTarget`."""
    form: str = ""
    """How a task reads them, and the number of classes: FORM/CLASSES. Before the classes are known,
    `NUMBERS` or `NAMES`, or empty if it is not a list of labels."""

    @property
    def kept(self) -> dict[str, str]:
        """Their description in a manifest."""
        entry = {"image": self.image, "label": self.label, "field": self.field}
        return entry | ({"target": self.target, "form": self.form} if self.target else {})

    @property
    def leaf(self) -> str:
        """Path of the encoded image in the schema of the file."""
        return f"{self.image}.{self.field}" if self.field else self.image


@dataclass(frozen=True)
class RowGroup:
    """The images and labels of a row group."""

    images: pa.Array
    """Encoded images, binary."""
    labels: pa.Array
    """Labels, int64."""
    targets: tuple[bytes, ...] | None = None
    """Targets, where they are more than labels; empty for a row with a fault."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """Why targets cannot be used, by row."""

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
        for target in self.targets or ():
            digest.update(len(target).to_bytes(8, "little") + target)
        return str(digest.hexdigest())

    def fault(self, row: int) -> str | None:
        """Return why a row cannot be trained on, or None."""
        if row in self.faults:
            return self.faults[row]
        if not self.labels[row].is_valid:
            return "has no label; leave such rows out when the files are written"
        if not self.images[row].is_valid or not self.images[row].as_buffer().size:
            return (
                "has no image in it, at most a path; write the files with the images inside, as"
                " datasets' push_to_hub and to_parquet with embed_external_files do"
            )
        return None

    def rows(self, first: int, count: int) -> Iterator[Values]:
        """Yield the image, the label and the target, if there is one, of some rows without a
        fault.
        """
        # Through Python's buffers, because a scalar of Arrow costs several microseconds.
        data = memoryview(self.images.buffers()[2])
        ends = self._ends[first : first + count + 1].tolist()
        labels = self.labels.slice(first, count).to_pylist()
        images = (bytes(data[begin:end]) for begin, end in pairwise(ends))
        if self.targets is None:
            yield from zip(images, labels, strict=True)
        else:
            yield from zip(images, labels, self.targets[first : first + count], strict=True)


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet files, of which each row group is a block. See `RecordFormat`."""

    columns: Columns
    names: tuple[str, ...] = ()
    """Names of the classes; needed where rows have `NAMES`."""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @property
    def fields(self) -> Sequence[str]:
        """See `RecordFormat.fields`."""
        return ("string", "int64", "string") if self.columns.target else ("string", "int64")

    def parse(self, values: Values, target: StoredTarget) -> tuple[Any, Any]:
        """See `RecordFormat.parse`: the label, or the target if it is the one of the columns."""
        image, label, *more = values
        return image, more[0] if more and target.key == self.columns.target else label

    def record(self, values: Values) -> Record:
        """See `RecordFormat.record`; a row has neither the size of its image nor other texts."""
        image, label, *more = values
        targets = {self.columns.target: more[0]} if more else {}
        return Record(image, "", 0, 0, label, "", "", more=targets)

    def blocks(self, shard: Shard) -> Sequence[int]:
        """See `RecordFormat.blocks`."""
        return shard.blocks

    def entries(self, shard: Shard) -> list[Entry]:
        """See `RecordFormat.entries`."""
        return [Entry(number, 0, rows) for number, rows in enumerate(shard.blocks)]

    def where(self, block: int, record: int | None) -> str:
        """See `RecordFormat.where`."""
        return f"row group {block}" + ("" if record is None else f", row {record}")

    def reader(self, streams: int) -> "ParquetReader":
        """See `RecordFormat.reader`."""
        return ParquetReader(self, streams)

    def scan(self, path: str, file: str, known: Shard | None = None) -> "ParquetScan":
        """See `RecordFormat.scan`."""
        return ParquetScan(self, path, file, known)

    def read(self, path: str, number: int, *, checked: bool = False) -> RowGroup:
        """Read a row group.

        Args:
            path: File to read.
            number: Row group.
            checked: Whether to compare pages with their checksums, where the file has them.

        Raises:
            BrokenBlockError: It cannot be decoded.
            OSError: The file cannot be read.
        """
        with explained(), pa.OSFile(path) as file:
            parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=checked)
            if number >= parquet.num_row_groups:
                raise BrokenBlockError("the file ends before it")
            wanted = [self.columns.leaf, self.columns.label]
            table = parquet.read_row_group(number, wanted, use_threads=False).combine_chunks()
            images = table.column(self.columns.image)
            if self.columns.field:
                (images,) = images.flatten()
            column = table.column(self.columns.label)
            if self.columns.target:
                return self._packed(_whole(images), column.to_pylist())
            return RowGroup(_whole(images), _whole(column.cast(pa.int64())))

    def _packed(self, images: pa.Array, rows: list[Any]) -> RowGroup:
        """Return a row group whose targets are packed by their task."""
        task = row_target(self.columns.target)
        pack, (form, _, classes) = load(task.pack), self.columns.form.partition("/")
        targets, labels, faults = list[bytes](), list[int](), dict[int, str]()
        for number, row in enumerate(rows):
            image = images[number].as_buffer()
            try:
                value = self._numbered(row) if form == NAMES else row
                packed, label = pack(value, bytes(image or b""), form, int(classes))
            except RejectedError as error:
                faults[number], packed, label = str(error), b"", 0
            targets.append(packed)
            labels.append(label)
        return RowGroup(images, pa.array(labels, pa.int64()), tuple(targets), faults)

    def _numbered(self, row: list[str | None] | None) -> list[int | None] | None:
        """Return the numbers of the classes that a row names.

        Raises:
            RejectedError: There is no class of such a name.
        """
        if row is None:
            return None
        numbers = [self._numbers.get((text or "").strip()) for text in row]
        if None in numbers:
            text = row[numbers.index(None)]
            raise RejectedError(
                "has ", repr(text), " in its list, which is not the name of a class"
            )
        return numbers


def row_target(feature: str) -> RowTarget:
    """Return how tables hold a feature of a task.

    Raises:
        DataError: No task has it.
    """
    for task in TASKS.values():
        if task.rows and task.rows.feature == feature:
            return task.rows
    raise DataError(f"no task reads {feature!r}; prepare the data again")


def parquet_format(manifest: Manifest) -> ParquetFormat:
    """Return the format of a data set of Parquet files."""
    return ParquetFormat(Columns(**manifest.columns), manifest.classes)


class ParquetReader:
    """See `RecordReader`. A window usually ends inside a row group, of which the next window of the
    stream begins with the rest, so that row group is kept.
    """

    def __init__(self, layout: ParquetFormat, streams: int) -> None:
        self._format, self._kept = layout, Kept[RowGroup](streams)

    def records(
        self, path: str, shard: Shard, block: int, first: int, count: int
    ) -> Iterator[Values]:
        """See `RecordReader.records`."""
        group = self._kept.take((path, block))
        if group is None:
            group = self._format.read(path, block)
            if len(group) != shard.blocks[block] or group.digest() != shard.block_hashes[block]:
                raise BrokenBlockError(UNFIT)
        if first + count < len(group):
            self._kept.keep((path, block), group)
        return group.rows(first, count)


class ParquetScan:
    """See `Scan`."""

    def __init__(self, layout: ParquetFormat, path: str, file: str, known: Shard | None) -> None:
        self._format, self._path, self._file, self._known = layout, path, file, known
        self._rows, self._digests = list[int](), list[str]()
        self._xxh128 = ""

    def __iter__(self) -> Iterator[Stored]:
        # First, so that the row groups are then read from the system's cache.
        with Path(self._path).open("rb") as file:
            self._xxh128 = hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
        with explained():
            footer = pq.read_metadata(self._path)
        for number in range(footer.num_row_groups):
            rows, where = footer.row_group(number).num_rows, self.where
            self._rows.append(rows)
            try:
                group = self._read(number)
            except BrokenRecordError as error:
                yield Stored(where, fault=str(error), count=rows)
                continue
            for row in range(rows):
                fault = group.fault(row)
                values = () if fault else next(group.rows(row, 1))
                yield Stored(self._format.where(number, row), values, fault)

    def _read(self, number: int) -> RowGroup:
        """Read the next row group.

        Raises:
            BrokenRecordError: It cannot be decoded, or is not the one in the manifest.
        """
        self._digests.append("")
        try:
            group = self._format.read(self._path, number, checked=True)
        except BrokenRecordError as error:
            raise BrokenRecordError(f"cannot be read ({error})") from error
        self._digests[number] = group.digest()
        known = self._known.block_hashes[number : number + 1] if self._known else ()
        if known not in ((), (self._digests[number],)):
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
        return Shard(self._file, sum(rows), size, self._xxh128, blocks=rows, block_hashes=digests)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)


@contextmanager
def explained() -> Iterator[None]:
    """Turn pyarrow's errors into `BrokenBlockError`, or into an OSError of the system."""
    try:
        yield
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, os.strerror(error.errno)) from error
        raise BrokenBlockError(first_line(error)) from error
    except (pa.ArrowException, MemoryError) as error:
        raise BrokenBlockError(first_line(error)) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
