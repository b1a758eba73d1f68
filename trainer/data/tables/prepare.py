"""`ml-trainer prepare table`: images whose classes are in a table."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from common.errors import ConfigError
from common.text import plural
from trainer.data.intake.names import Note
from trainer.data.manifest import Manifest
from trainer.data.prepare.encode import may_be_image
from trainer.data.prepare.input_files import (
    ImageFile,
    Inputs,
    StoredFile,
    folder_problems,
    in_folder,
)
from trainer.data.prepare.job import prepare
from trainer.data.prepare.on_disk import OnDisk
from trainer.data.prepare.pool import WorkThrough, work_through
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_of, splits_of_rows
from trainer.data.tables.file_names import ByName, ambiguous, roots_of
from trainer.data.tables.kept_columns import KeptColumns
from trainer.data.tables.leaks import Column, identifying
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.reader import Row, RowProblems, Table, check_classes, open_table

_FILES: Final = (
    *("file", "filename", "file_name", "path", "image", "image_name", "img", "datei"),
    *("dateiname", "bild"),
)
_CLASSES: Final = (
    *("class", "label", "classes", "labels", "category", "target", "diagnosis", "klasse"),
    *("diagnose", "kategorie", "befund"),
)
_GROUPS: Final = (
    *("patient", "patient_id", "patientid", "subject", "subject_id", "person", "person_id"),
    *("group", "group_id", "patienten_id", "patientennummer", "gruppe", "proband"),
)
_SPLITS: Final = ("split", "subset", "partition", "dataset_split")
_USUAL: Final = {*_FILES, *_CLASSES, *_GROUPS, *_SPLITS}
_MARKS: Final = frozenset(("0", "1", "0.0", "1.0", "-1", "-1.0", ""))
_NONE: Final = "none"
_LOOKED_AT: Final = 500
"""Rows by which the column of files is found."""


@dataclass(frozen=True)
class _Columns:
    """Columns by the kind of their values; empty if the table has none of a kind."""

    file: str
    label: str
    group: str
    split: str

    def note(self, path: Path) -> Note:
        """Return a note on the columns in use. Names that are not usual are details: a table may
        lack its first line.
        """
        kinds = {"files": self.file, "classes": self.label, "groups": self.group,
                 "splits": self.split}  # fmt: skip
        parts, comma = ["", str(path), ": "], ""
        for kind, name in kinds.items():
            if name:
                parts[-1] += f"{comma}{kind} in column "
                comma = ", "
                if name.lower() in _USUAL:
                    parts[-1] += repr(name)
                else:
                    parts += [repr(name), ""]
        return tuple(parts)


@dataclass(frozen=True)
class _Entry:
    """A row of a file that is in the folder."""

    file: StoredFile
    label: str
    group: str
    split: str
    values: tuple[str, ...]
    """All values, in the order of the table's columns."""


def prepare_table(
    options: PrepareTableOptions, command: str, work_through: WorkThrough = work_through
) -> Manifest:
    """Write the images of a table as a data set.

    Raises:
        ConfigError: A folder or file is not given or does not exist, or options contradict.
        DataError: The table cannot be used; or see `job.prepare`.
    """
    problems = folder_problems(options.output, input=options.input)
    if not Path(options.table).is_file():
        missing = f"no file {options.table}" if options.table else "name the CSV file"
        problems.append(f"--table: {missing}")
    if options.group_by is not None and options.group_column not in (None, _NONE):
        problems.append("--group-by: groups are those of --group-column; give one of both")
    if options.pages != "first":
        problems.append("--pages: a row is about the first image of a file; set it to first")
    if problems:
        raise ConfigError(problems)
    inputs = table_inputs(Path(options.input).resolve(), options)
    output = Path(options.output)
    return prepare(inputs, output, options, command, options.held_out, work_through)


def table_inputs(root: Path, options: PrepareTableOptions) -> Inputs:
    """List the images of a table.

    Raises:
        DataError: The table cannot be used, or names no usable image.
    """
    table = open_table(Path(options.table))
    check_classes(table, named=options.class_column is not None)
    files = OnDisk[StoredFile]()
    for file in in_folder(root, root):
        files[file.path] = file
    by_name = ByName(files, OnDisk(), roots_of(options.input))
    columns = _columns(table, by_name, options)
    entries, rejected, lines = _entries(table, by_name, columns)
    words: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for entry in entries.values():
        words[entry.split] += 1
        counts[entry.label] += 1
    classes = tuple(sorted(counts))
    if not classes:
        raise table.error("has no row with a class and a file in ", str(root))
    labels = {name: label for label, name in enumerate(classes)}
    splits = splits_of_rows(words, table.path)
    kept_columns = _kept(table, columns, options)
    places = {name: place for place, name in enumerate(table.columns)}

    def listed() -> Iterator[ImageFile | RejectedFile]:
        yield from rejected.values()
        for path, entry in entries.items():
            file = entry.file
            split = splits.get(entry.split)
            if split is None:
                continue
            if file.fault:
                yield RejectedFile(split, path, file.fault)
                continue
            label, where = labels[entry.label], file.container
            yield ImageFile(split, path, label, where, 0, file.size, file.changed)

    def value(name: str) -> Callable[[str], str]:
        return lambda path: entries[path].values[places[name]] if path in entries else ""

    def kept_values(path: str) -> Sequence[str]:
        values = entries[path].values
        return [values[places[name]] for name in kept_columns]

    unnamed = sum(
        path not in lines and not file.fault and may_be_image(path) for path, file in files.items()
    )
    unused = sum(count for word, count in words.items() if word not in splits)
    notes: list[Note] = [
        *([table.form] if table.form else []),
        columns.note(table.path),
        *([f"left out, because no row names them: {plural(unnamed, 'file')}"] if unnamed else []),
        *([f"left out, because they are of no split: {plural(unused, 'row')}"] if unused else []),
    ]
    return Inputs(
        classes,
        listed,
        notes=tuple(notes),
        above=0,
        group=(lambda file: entries[file.name].group) if columns.group else None,
        kept=KeptColumns(kept_columns, kept_values) if kept_columns else None,
        columns=tuple(
            Column(name, value(name))
            for name in table.columns
            if name not in vars(columns).values()
            and identifying(name, (entry.values[places[name]] for entry in entries.values()))
        ),
    )


def _columns(table: Table, by_name: ByName[StoredFile], options: PrepareTableOptions) -> _Columns:
    file = options.file_column
    if file is None:
        rows = [row for row in islice(table.rows(), _LOOKED_AT) if not row.fault]
        of_column = {
            name: by_name.count(row.values[name] for row in rows) for name in table.columns
        }
        best = max(of_column, key=lambda name: of_column[name])
        if of_column[best]:
            file = best
        elif rows:
            raise table.error(
                "no column has names of files in ",
                f"{options.input}, such as {by_name.example}; its columns are {table.names}",
                "; --file-column names it",
            )
    file = table.column(file, _FILES, "--file-column")
    if options.class_column is None and not table.column(None, _CLASSES, ""):
        _check_marks(table, file)
    label = table.column(options.class_column, _CLASSES, "--class-column")
    group, split = (
        "" if given == _NONE else table.column(given, usual, "")
        for given, usual in ((options.group_column, _GROUPS), (options.split_column, _SPLITS))
    )
    if options.group_by is not None:
        group = ""
    return _Columns(file, label, group, split)


def _check_marks(table: Table, file: str) -> None:
    """Raises:
    DataError: Several columns mark with 1 and 0 which classes an image has.
    """
    rows = [row.values for row in islice(table.rows(), _LOOKED_AT) if not row.fault]
    marks = [c for c in table.columns if c != file and all(row[c] in _MARKS for row in rows)]
    if rows and len(marks) > 1:
        raise table.error(
            f"marks classes with 1 and 0 in columns of their own, such as {marks[0]};"
            " `prepare multilabel` reads it, even where an image has several classes"
        )


def _entries(
    table: Table, by_name: ByName[StoredFile], columns: _Columns
) -> tuple[Mapping[str, _Entry], Mapping[str, RejectedFile], Mapping[str, int]]:
    """Return the rows of files in the folder by path, what cannot be used, and the lines of all
    files that rows name.

    Raises:
        DataError: Rows are broken or contradict each other.
    """
    entries, rejected = OnDisk[_Entry](), OnDisk[RejectedFile]()
    lines, problems = OnDisk[int](), RowProblems()
    for row in table.rows():
        problem = (row.fault,) if row.fault else _problem(row, columns)
        name = row.values.get(columns.file, "")
        path = by_name.path(name)
        first = lines.get(path) if path is not None and not problem else None
        if first is not None:
            problem = ("", repr(name), f" is in line {first} already; write one row")
        if problem:
            problems.add(row.line, *problem)
            continue
        label = row.values[columns.label]
        split = split_of(row.values.get(columns.split, ""))
        if path is None:
            several = by_name.several(name)
            why, paths, cure = ambiguous(several) if several else ("not in the folder", "", "")
            parts = f"is in the table, but {why}", paths, f"{cure} (line {row.line})"
            rejected[str(row.line)] = RejectedFile.of("", name, *parts)
        elif not label:
            why = f"has no class in the table (line {row.line})"
            rejected[str(row.line)] = RejectedFile("", path, why)
        else:
            file = by_name.get(path)
            assert file is not None
            group = row.values.get(columns.group, "")
            values = tuple(row.values[column] for column in table.columns)
            entries[path] = _Entry(file, label, group, split, values)
        if path is not None:
            lines[path] = row.line
    problems.check(table.path)
    return entries, rejected, lines


def _problem(row: Row, columns: _Columns) -> tuple[str, ...]:
    """Return why a row cannot be used, and what to do, as parts of which every second one is a
    detail; empty if it can.
    """
    if not row.values[columns.file]:
        return "names no file in the column ", repr(columns.file)
    name = row.values[columns.file]
    if columns.group and not row.values[columns.group]:
        return (
            "",
            repr(name),
            " has no group in the column ",
            repr(columns.group),
            "; write one, or --group-column none uses no groups",
        )
    if columns.split and row.values[columns.split] and not split_of(row.values[columns.split]):
        text = row.values[columns.split]
        return (
            "",
            f"{name!r} has {text!r}",
            " in the column ",
            repr(columns.split),
            "; write train, validation or test, or --split-column none uses no splits",
        )
    return ()


def _kept(table: Table, columns: _Columns, options: PrepareTableOptions) -> tuple[str, ...]:
    """Return the columns to keep with the data set.

    Raises:
        DataError: The table does not have one that is named.
    """
    if options.keep_columns == (_NONE,):
        return ()
    if options.keep_columns:
        return tuple(table.column(name, (), "--keep-columns") for name in options.keep_columns)
    if options.names != "kept":
        return ()
    decided: Sequence[str] = (columns.file, columns.label, columns.split)
    return tuple(name for name in table.columns if name not in decided)
