"""`ml-trainer prepare parquet`: a manifest for Parquet files of images and labels.

find the files of each split  ->  find the columns and the classes  ->  scan each, in parallel
                              ->  statistics  ->  write manifest.json; the files are not changed
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError
from common.files import writing
from common.image_files import entries_below
from trainer.data.example import OTHER_COMMANDS, BrokenRecordError
from trainer.data.manifest import Manifest
from trainer.data.prepare.foreign.in_place import (
    MAX_CLASSES,
    Labels,
    Scanned,
    describe,
    existing_manifest,
    save_described,
)
from trainer.data.prepare.foreign.names import files_by_split, read_class_names, told_apart
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.errors import DataError
from trainer.extras.parquet.files import (
    Layout,
    UnfitFileError,
    check_row_groups,
    find_columns,
    label_rows,
    listed_texts,
    read_layout,
    unread_columns,
)
from trainer.extras.parquet.format import NAMES, Columns, ParquetFormat, row_target
from trainer.extras.parquet.leaf import FORMAT
from trainer.extras.parquet.options import PrepareParquetOptions

_SUFFIX: Final = ".parquet"
_BBOX: Final = "bbox"
"""Field of the boxes of objects."""
_LARGE_ROW_GROUP = 32_000_000
"""Bytes of a row group from which the user is told of the memory that it takes."""


def prepare_parquet(
    options: PrepareParquetOptions, line: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Describe the Parquet files in a folder by a manifest.

    Args:
        options: Options of the command.
        line: Command line, for the manifest.
        work_through: Reads the files; see `trainer.data.prepare.pool`.

    Raises:
        ConfigError: No folder is given, or a file of class names cannot be read.
        DataError: Files are missing, damaged or cannot be trained on, columns are ambiguous, labels
            are out of range, or the folder has a manifest of other files.
    """
    if not options.input:
        raise ConfigError(["--input: name the folder of the Parquet files"])
    folder = Path(options.input)
    output = Path(options.output or folder)
    by_split = find_files(folder)
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    existing = existing_manifest(output)
    everything = [path for paths in by_split.values() for path in paths.values()]
    columns, layout = agreed_columns(everything, options)
    for column, what in unread_columns(layout, columns).items():
        print(f"the column {column!r} is not read: {what}, {OTHER_COMMANDS[what]}")
    rows = sum(_checked(path, columns) for path in everything)
    if columns.target and _BBOX in row_target(columns.target).fields:
        _check_pixels(everything, columns)
    names = class_names(layout, columns, options) or _listed_names(everything, columns)
    columns = _with_form(columns, options, len(names))

    def classes_of(_: Scanned, labels: Labels) -> tuple[tuple[str, ...], int]:
        known = range(max(map(max, labels.values())) + 1)
        return names or tuple(f"class {label}" for label in known), 0

    files, classes = ParquetFormat(columns, names), len(names) or MAX_CLASSES
    manifest = describe(
        folder, by_split, files, rows, options, line, classes_of, work_through, classes
    )
    described = save_described(
        output,
        replace(
            manifest,
            format=FORMAT,
            columns=columns.kept,
            files="" if output.resolve() == folder.resolve() else str(folder.resolve()),
        ),
        existing,
    )
    _note_row_groups(described)
    return described


def _note_row_groups(manifest: Manifest) -> None:
    """Tell of row groups that take much memory, because each stream of a run holds some."""
    train = manifest.splits["train"]
    size = train.largest_block * train.bytes / train.examples
    if size > _LARGE_ROW_GROUP:
        print(
            f"row groups have up to {train.largest_block:,} images, about {size / 1e6:,.0f} MB,"
            " and each stream of a run holds one or more: `train --dry-run` prints the memory"
            " that this takes; a smaller --data.streams takes less, and so do files with fewer rows"
            " in a row group"
        )


def find_files(folder: Path) -> dict[str, dict[str, Path]]:
    """Return the files of each split by their names, in their order; see `files_by_split`.

    Raises:
        DataError: There is no such folder, a split has no files or lacks some, or has files of
            several series.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    by_split = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(entries_below(folder, DataError))
        if path.is_file()
        and path.name.endswith(_SUFFIX)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
    return files_by_split(by_split, str(folder), _SUFFIX, divide=False)


def agreed_columns(paths: list[Path], options: PrepareParquetOptions) -> tuple[Columns, Layout]:
    """Return the columns and the schema of all files.

    Raises:
        DataError: A file cannot be trained on, or differs from the first one.
    """
    agreed: tuple[Columns, Layout] | None = None
    for path in paths:
        try:
            layout = read_layout(str(path))
            columns = find_columns(layout, options.image_column, options.label_column)
        except UnfitFileError as error:
            raise DataError(f"{path}: {error}") from error
        if agreed is None:
            agreed = columns, layout
        first, described = agreed
        names = [_described_names(each, first) for each in (described, layout)]
        if columns != first or names[0] != names[1]:
            what = "columns" if columns != first else "class names"
            raise DataError(
                f"{path}: has other {what} than {paths[0]}; all files must be of one data set"
            )
    assert agreed is not None
    return agreed


def _checked(path: Path, columns: Columns) -> int:
    try:
        return check_row_groups(str(path), columns)
    except UnfitFileError as error:
        raise DataError(f"{path}: {error}") from error
    except BrokenRecordError as error:
        raise DataError(f"{path}: cannot be read ({error}); copy it again") from error


def class_names(
    layout: Layout, columns: Columns, options: PrepareParquetOptions
) -> tuple[str, ...]:
    """Return the names in the file that is given, or in the metadata; empty if there are none.

    Raises:
        ConfigError: The file cannot be read, or has an empty line.
    """
    return read_class_names(options.class_names) or told_apart(_described_names(layout, columns))


def _listed_names(paths: Sequence[Path], columns: Columns) -> tuple[str, ...]:
    """Return all texts in lists of names, sorted; empty if labels are integers.

    Raises:
        DataError: There are none, or more than there are classes; or a file cannot be read.
    """
    if columns.form != NAMES:
        return ()
    names = set[str]()
    for path in paths:
        try:
            for text in listed_texts(str(path), columns):
                names.add(text)
                if len(names) > MAX_CLASSES:
                    raise DataError(
                        f"{path}: its column {columns.label!r} has more than {MAX_CLASSES:,}"
                        " different texts, too many to be names of classes; name another column"
                        " with --label-column"
                    )
        except BrokenRecordError as error:
            raise DataError(f"{path}: cannot be read ({error}); copy it again") from error
    if not names:
        raise DataError(f"{paths[0].parent}: the column {columns.label!r} has only empty lists")
    return tuple(sorted(names))


def _check_pixels(paths: Sequence[Path], columns: Columns) -> None:
    """Look at boxes until one is of pixels, which usually the first is.

    Raises:
        DataError: All are fractions of their images.
    """
    fractions = False
    for path in paths:
        # What cannot be read now, the scan names with its row group.
        with suppress(BrokenRecordError):
            for row in label_rows(str(path), columns):
                for box in _boxes_of(row):
                    # Rounding makes fractions a little larger than 1.
                    if not all(-0.01 <= number <= 1.01 for number in box):
                        return
                    fractions = fractions or any(box)
    if fractions:
        raise DataError(
            f"{paths[0].parent}: every {_BBOX} of the column {columns.label!r} lies between 0 and"
            " 1, as a fraction of its image, but boxes are read in pixels: multiply left and right,"
            " or width, by the width of the image, and top and bottom, or height, by its height"
        )


def _boxes_of(row: Any) -> Iterator[list[float]]:
    """Yield the boxes of a row that are lists of numbers."""
    objects = row.get(_BBOX) if isinstance(row, dict) else [o and o.get(_BBOX) for o in row or ()]
    for box in objects or ():
        if isinstance(box, list) and box and all(isinstance(n, int | float) for n in box):
            yield box


def _described_names(layout: Layout, columns: Columns) -> list[str]:
    """Return the names of classes in the metadata; empty if there are none."""
    described = layout.features.get(columns.label, {})
    if columns.target:
        wanted = row_target(columns.target).classes
        inside = [below[wanted] for below in _below(described) if wanted in below]
        parts = inside if wanted else [described]
        described = next(
            (entry for part in parts for entry in _below(part) if "names" in entry), {}
        )
    names = described.get("names")
    return names if isinstance(names, list) else []


def _below(described: Any) -> Iterator[dict[str, Any]]:
    """Yield a feature and those that it consists of, which versions of `datasets` nest in several
    ways.
    """
    if isinstance(described, dict):
        yield described
        for part in described.values():
            yield from _below(part)


def _with_form(columns: Columns, options: PrepareParquetOptions, classes: int) -> Columns:
    """Return the columns with how their targets are read.

    Raises:
        ConfigError: An option does not fit the columns.
    """
    if not columns.target:
        if options.target_form is not None:
            raise ConfigError(["--target-form: the files have labels alone, which have one form"])
        return columns
    forms = row_target(columns.target).forms or (columns.form,)
    if options.target_form not in (None, *forms):
        raise ConfigError([f"--target-form: must be one of {', '.join(forms)}"])
    if not classes:
        raise ConfigError(["--class-names: is missing, as the files do not name their classes"])
    return replace(columns, form=f"{options.target_form or forms[0]}/{classes}")
