"""`ml-trainer prepare parquet --copy True`: the rows of Parquet files as shuffled shards.

find columns and classes, and list all labels  ->  unpack the images, file by file, in parallel
                                               ->  write shards, as from any other files

A shard takes rows from everywhere, and a row can be read only with its whole row group. So the
images of each file are first written, one after the other, to a file from which each can be read
alone. These files are deleted with the other descriptions of an unfinished data set.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from zlib import crc32

import xxhash

from common.errors import ConfigError, UserError
from trainer.data.example import BrokenRecordError
from trainer.data.manifest import Manifest
from trainer.data.pixels.treatment import RejectedError
from trainer.data.prepare.foreign.in_place import MAX_CLASSES
from trainer.data.prepare.input_files import FileReader, ImageFile, ImageReader, Inputs
from trainer.data.prepare.job import prepare
from trainer.data.prepare.pool import Advance, WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError
from trainer.parquet.describe import agreed_columns, class_names, find_files, prepare_parquet
from trainer.parquet.files import ABSENT, UnfitFileError, file_labels, row_images
from trainer.parquet.format import Columns
from trainer.parquet.options import COPIED, PrepareParquetOptions

_ENDS = struct.Struct("<2q")
_TOLD_EVERY = 16
"""Images between two updates of the counter that all processes share."""
_LABELS_TOLD_EVERY = 100
"""Number of files between two progress lines of reading labels."""


@dataclass(frozen=True)
class ParquetFile:
    """A file whose rows are listed."""

    path: Path
    name: str
    """Path relative to the given folder."""
    labels: list[list[int]]
    """Labels of each row group, `ABSENT` where a row has none."""
    size: int
    """Bytes of all rows before compression, nearly all of them of images."""

    @property
    def rows(self) -> int:
        return sum(map(len, self.labels))


def describe_or_copy(
    options: PrepareParquetOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Describe Parquet files where they are or, with --copy True, copy them; see
    `prepare_parquet` and `copy_parquet`.
    """
    if options.copy:
        return copy_parquet(options, command, work_through)
    return prepare_parquet(options, command)


def copy_parquet(
    options: PrepareParquetOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write the images of Parquet files as a data set of shards.

    Raises:
        ConfigError: No folder is given, the output is the input, or a file of class names cannot be
            read.
        DataError: Files are missing, damaged or encrypted, or columns are ambiguous; see also
            `job.prepare`.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder of the Parquet files"])
    folder, output = Path(options.input), Path(options.output or COPIED)
    if output.resolve() == folder.resolve():
        raise ConfigError([f"--output: {output} is --input; choose another folder for the copy"])
    found = find_files(folder, divide=True)
    paths = [path for of_split in found.values() for path in of_split.values()]
    columns, layout = agreed_columns(paths, options)
    if columns.target:
        why = f"--copy: copies have images and labels, not {columns.label}; leave it out"
        raise ConfigError([f"{why}, as such files are read where they are"])
    names = class_names(layout, columns, options)
    count, known = len(paths), 0
    files: dict[str, list[ParquetFile]] = {split: [] for split in found}
    for split, of_split in found.items():
        for name, path in of_split.items():
            files[split].append(_labelled(path, name, columns))
            known += 1
            if known % _LABELS_TOLD_EVERY == 0:
                print(f"reading labels: {known:,} of {count:,} files so far", flush=True)
    inputs = row_inputs(files, names, columns)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def _labelled(path: Path, name: str, columns: Columns) -> ParquetFile:
    """Read the labels of a file.

    Raises:
        DataError: They cannot be read.
    """
    try:
        labels, size = file_labels(str(path), columns)
    except UnfitFileError as error:
        raise DataError(f"{path}: {error}") from error
    except BrokenRecordError as error:
        raise DataError(f"{path}: labels cannot be read ({error}); copy the file again") from error
    return ParquetFile(path.resolve(), name, labels, size)


def row_inputs(
    files: Mapping[str, Sequence[ParquetFile]], names: tuple[str, ...], columns: Columns
) -> Inputs:
    """List the rows of some files as images.

    Args:
        files: Files of each split.
        names: Names of the classes; empty if they are not known.
        columns: Columns of images and labels.
    """
    every = [file for of_split in files.values() for file in of_split]
    largest = max((max(group) for file in every for group in file.labels if group), default=0)
    known = names or tuple(f"class {n}" for n in range(min(max(largest, 0) + 1, MAX_CLASSES)))

    def listed() -> Iterator[ImageFile | RejectedFile]:
        for split, of_split in files.items():
            for file in of_split:
                yield from _rows(split, file, len(known), _changed(file.path, columns))

    def unpack(folder: Path, processes: int) -> Callable[[], ImageReader]:
        tasks = [
            _Unpacking(file.path, _changed(file.path, columns), columns, folder) for file in every
        ]
        missing = [task for task in tasks if not task.ends.exists()]
        rows = sum(file.rows for file, task in zip(every, tasks, strict=True) if task in missing)
        with work_through(_unpack, missing, rows, "unpacking", processes) as results:
            for _ in results:
                pass
        return partial(RowReader, folder)

    return Inputs(known, listed, unpack=unpack)


def _rows(
    split: str, file: ParquetFile, classes: int, changed: int
) -> Iterator[ImageFile | RejectedFile]:
    number = 0
    # The sizes of single images are known only once they are unpacked.
    mean = -(-file.size // max(file.rows, 1))
    for group, labels in enumerate(file.labels):
        for row, label in enumerate(labels):
            name = f"{file.name}/row group {group}/row {row}"
            if label == ABSENT:
                yield RejectedFile(split, name, "has no label")
            elif not 0 <= label < classes:
                fault = f"has the label {label}, which is not a class, 0 to {classes - 1}"
                yield RejectedFile(split, name, fault)
            else:
                yield ImageFile(split, name, label, str(file.path), number, mean, changed)
            number += 1


def _changed(path: Path, columns: Columns) -> int:
    """Return the time of a file's last change, moved by the column: images of another column are
    another data set.
    """
    return path.stat().st_mtime_ns + crc32(columns.leaf.encode())


class RowReader:
    """Reads images from the files that were unpacked. See `ImageReader`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, FileReader()

    def read(self, file: ImageFile) -> bytes:
        """See `ImageReader.read`; the offset is the number of the row in its file."""
        images, ends = _unpacked(self._folder, Path(file.container), file.changed)
        with ends.open("rb") as bounds:
            begin, end = _ENDS.unpack(os.pread(bounds.fileno(), _ENDS.size, 8 * file.offset))
        if begin == end:
            raise RejectedError("has no image in it, at most a path")
        stored = replace(file, container=str(images), offset=begin, size=end - begin)
        return self._files.read(stored)

    def close(self) -> None:
        """See `ImageReader.close`."""
        self._files.close()


def _unpacked(folder: Path, path: Path, changed: int) -> tuple[Path, Path]:
    """Return the file of a Parquet file's images, and that of the offsets of their ends."""
    name = xxhash.xxh3_128_hexdigest(f"{path}/{changed}".encode(errors="surrogateescape"))
    return folder / f"{name}.images", folder / f"{name}.ends"


@dataclass(frozen=True)
class _Unpacking:
    path: Path
    changed: int
    columns: Columns
    folder: Path

    @property
    def ends(self) -> Path:
        return _unpacked(self.folder, self.path, self.changed)[1]


def _unpack(task: _Unpacking, advance: Advance) -> None:
    """Write the images of a file one after the other, and only then the offsets of their ends.

    Raises:
        DataError: A row group is damaged, or the file has changed since it was listed.
        UserError: The file cannot be read, or its images cannot be written.
    """
    images, ends = _unpacked(task.folder, task.path, task.changed)
    sizes = [0]
    try:
        with images.open("wb") as output:
            for image in row_images(str(task.path), task.columns):
                output.write(image)
                sizes.append(len(image))
                if len(sizes) % _TOLD_EVERY == 1:
                    advance(_TOLD_EVERY)
            advance((len(sizes) - 1) % _TOLD_EVERY)
            output.flush()
            os.fsync(output.fileno())
    except BrokenRecordError as error:
        raise DataError(f"{task.path}, {error}; copy the file again") from error
    except OSError as error:
        raise UserError(
            f"{task.path}: cannot be unpacked into {task.folder} ({error.strerror}); run the same"
            " command again to continue"
        ) from error
    if _changed(task.path, task.columns) != task.changed:
        raise DataError(
            f"{task.path}: has changed since it was listed; when nothing writes there any more,"
            " start again with an empty --output"
        )
    partial_file = ends.with_suffix(".partial")
    partial_file.write_bytes(struct.pack(f"<{len(sizes)}q", *accumulate(sizes)))
    partial_file.replace(ends)
