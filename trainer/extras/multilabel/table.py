"""A table of images and their classes, as a CSV file. Standard library only."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.text import plural
from trainer.data.intake.names import Note
from trainer.data.prepare.on_disk import OnDisk
from trainer.data.prepare.splits import split_of
from trainer.data.tables import reader as tables
from trainer.data.tables.reader import check_classes, open_table
from trainer.extras.multilabel.options import Marked, PrepareMultilabelOptions

_CLASS_COLUMNS: Final = ("classes", "class", "labels", "label", "tags")
_BITS: Final = {"0": False, "0.0": False, "1": True, "1.0": True}
_UNCERTAIN: Final = ("-1", "-1.0")
"""Marks of a class that may be there, as CheXpert and MIMIC-CXR write them."""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    line: int
    """Line of the file, as an editor counts: line 1 has the names of the columns."""
    file: str
    classes: tuple[str, ...]
    split: str
    """Split: train, validation or test; empty if the table has none."""
    ignored: bool = False
    """Whether a mark of a class is to be ignored, and so the image."""
    group: str = ""
    """Group, such as a patient; empty if the table has none."""


@dataclass(frozen=True)
class Table:
    """A table that was read."""

    classes: tuple[str, ...]
    """Names of the classes in the order of labels."""
    rows: Mapping[str, Row]
    """Rows by the names of their files, on disk."""
    notes: tuple[Note, ...]
    """Notes for the user."""


def read_table(path: Path, options: PrepareMultilabelOptions) -> Table:
    """Read a table.

    Raises:
        DataError: It cannot be read, has no such columns or no rows; or rows have an unknown class,
            split or value, or a file for the second time. Names the lines of the first ones.
    """
    table = open_table(path)
    check_classes(table, named=bool(options.class_column or options.classes))
    columns = _columns(table, options)
    rows, ignored = _read(table, columns)
    counts = Counter(name for row in rows.values() for name in row.classes)
    classes = columns.known or tuple(sorted(counts))
    if not classes:
        raise table.error(f"has no {'classes' if rows else 'rows'}")
    left_out = f"left out for uncertain or blank classes: {plural(ignored, 'image')}"
    notes = (*([left_out] if ignored else []), *_notes(rows, counts, classes, columns))
    return Table(classes, rows, (*([table.form] if table.form else []), *notes))


@dataclass(frozen=True)
class _Columns:
    """Columns of a table, by name."""

    file: str
    named: str
    """Column with the names of classes; empty if classes are columns."""
    split: str
    """Column with the split; empty if there is none."""
    known: tuple[str, ...]
    """Classes that there are; empty if rows tell."""
    separator: str
    marks: Mapping[str, Marked]
    """Meaning of marks that are neither 1 nor 0."""
    group: str = ""
    """Column with the group; empty if there is none."""

    def row(self, line: int, values: Mapping[str, str]) -> Row:
        """Return a row.

        Raises:
            ValueError: It cannot be used; says why, and what to do, in parts as of `DataError`.
        """
        name, split = values[self.file].strip(), split_of(values.get(self.split, ""))
        if not name:
            raise ValueError("names no file in the column ", repr(self.file))
        if self.split and not split:
            text = values[self.split]
            said = f"{name!r} has the split {text!r}"
            raise ValueError("", said, "; write train, validation or test")
        group = values.get(self.group, "")
        if self.group and not group:
            what = f" has no group in the column {self.group!r}; write one"
            raise ValueError("", repr(name), what)
        if self.named:
            return Row(line, name, self._named(name, values), split, group=group)
        marks = {column: values[column].strip() for column in self.known}
        classes = self._marked(name, marks)
        ignored = any(self.marks.get(mark) == "ignore" for mark in marks.values())
        return Row(line, name, classes, split, ignored, group)

    def _named(self, name: str, values: Mapping[str, str]) -> tuple[str, ...]:
        parts = (part.strip() for part in values[self.named].split(self.separator))
        names = tuple(dict.fromkeys(part for part in parts if part))
        unknown = next((part for part in names if self.known and part not in self.known), None)
        if unknown is not None:
            raise ValueError(
                "",
                f"{name!r} has the class {unknown!r}",
                ", which --classes does not name; add it there, or mend the row (between two"
                " classes is --separator)",
            )
        return names

    def _marked(self, name: str, marks: Mapping[str, str]) -> tuple[str, ...]:
        known = {*_BITS, *(mark for mark, meaning in self.marks.items() if meaning != "error")}
        strange = next((column for column, mark in marks.items() if mark not in known), None)
        if strange is not None:
            option = "blank" if not marks[strange] else "uncertain"
            meant = option == "blank" or marks[strange] in _UNCERTAIN
            say = f", say what it means with --{option} positive|negative|ignore" if meant else ""
            raise ValueError(
                "",
                f"{name!r} has {marks[strange]!r}",
                f" in the column {strange!r}; write 1 or 0{say}, or name the columns of classes"
                " with --classes",
            )
        return tuple(
            column
            for column, mark in marks.items()
            if _BITS.get(mark, self.marks.get(mark) == "positive")
        )


def _read(table: tables.Table, columns: _Columns) -> tuple[Mapping[str, Row], int]:
    """Return the rows by file, and the number of others, whose marks are to be ignored."""
    rows, lines, problems, ignored = OnDisk[Row](), OnDisk[int](), tables.RowProblems(), 0
    for stored in table.rows():
        if stored.fault:
            problems.add(stored.line, stored.fault)
            continue
        try:
            row = columns.row(stored.line, stored.values)
        except ValueError as error:
            problems.add(stored.line, *error.args)
            continue
        first = lines.get(row.file)
        if first is not None:
            again = f" is in line {first} already; write one row"
            problems.add(row.line, "", repr(row.file), again)
            continue
        lines[row.file] = row.line
        ignored += row.ignored
        if not row.ignored:
            rows[row.file] = row
    problems.check(table.path)
    return rows, ignored


def _columns(table: tables.Table, options: PrepareMultilabelOptions) -> _Columns:
    names = table.columns
    file = options.file_column or names[0]
    named = options.class_column or next((n for n in names if n.lower() in _CLASS_COLUMNS), "")
    split = next((name for name in names if name.lower() == "split"), "")
    group = options.group_column or ""
    known = options.classes
    if not named and not known:
        known = tuple(name for name in names if name not in (file, split, group))
    for name in (file, *([named] if named else known), *([group] if group else [])):
        if name not in names:
            raise table.error(f"has no column {name!r}; its columns are ", table.names)
    marks = {"": options.blank, **dict.fromkeys(_UNCERTAIN, options.uncertain)}
    return _Columns(file, named, split, known, options.separator, marks, group)


def _notes(
    rows: Mapping[str, Row], counts: Mapping[str, int], classes: Sequence[str], columns: _Columns
) -> Iterator[str]:
    without = sum(not row.classes for row in rows.values())
    if without:
        yield f"without a class: {plural(without, 'image')} of {len(rows):,} in the table"
    if columns.named and all(len(row.classes) < 2 for row in rows.values()):
        other = next((mark for mark in ";, /" if any(mark in name for name in counts)), None)
        hint = f"; if {other!r} is between two of them, give --separator {other!r}" if other else ""
        yield f"no image has more than one class, with --separator {columns.separator!r}{hint}"
    absent = [name for name in classes if name not in counts]
    if absent:
        yield f"classes that no image of the table has: {', '.join(absent)}"
