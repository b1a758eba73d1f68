"""The one reader of tables: CSV files as people and programs write them. Standard library only.

Separator and encoding are found in the file: Excel writes semicolons where a comma is the decimal
sign, and Windows-1252 or UTF-16 rather than UTF-8.
"""

import codecs
import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from common.image_files import is_image
from common.text import listing, without_details
from trainer.errors import DataError

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHERS: Final = {
    b"PK\x03\x04": "is a workbook of Excel or an archive; save the table as CSV",
    b"\xd0\xcf\x11\xe0": "is a workbook of Excel; save the table as CSV",
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"PAR1": "is not text; write the table as CSV",
}
"""Remedies for files other than text, by their first bytes."""
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_NAMES: Final = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8", "cp1252": "Windows-1252"}
_BOXES: Final = (
    *({"xmin", "ymin", "xmax", "ymax"}, {"x_min", "y_min", "x_max", "y_max"}),
    *({"x1", "y1", "x2", "y2"}, {"left", "top", "width", "height"}, {"region_shape_attributes"}),
    *({"bbox"}, {"bbox_x", "bbox_y", "bbox_width", "bbox_height"}),
)
"""Columns with the places of objects, as Roboflow, Open Images and VIA name them."""
_ADDRESSES: Final = ("gs://", "s3://", "http://", "https://")
_CHUNK: Final = 1 << 20
_SAMPLE: Final = 20
"""Lines by which a separator is judged."""
_SHOWN: Final = 20
"""Most problems of rows that an error names."""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    line: int
    """Its last line in the file, as an editor counts: line 1 has the names of the columns."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values by column, without spaces around them; empty if the row has a fault."""
    fault: str = ""
    """Why the row cannot be used; empty if it can."""


@dataclass(frozen=True)
class Table:
    """A table whose first line was read."""

    path: Path
    columns: tuple[str, ...]
    """Names of the columns; those without a name are left out."""
    encoding: str
    separator: str
    _places: tuple[int, ...]
    """Place of each column in a row."""
    _width: int
    """Number of columns, those without a name included."""
    _skipped: int
    """Rows before those of the table: the names of the columns, and what Excel puts above them."""

    @property
    def form(self) -> tuple[str, ...]:
        """How the table is written, as a `Note`; empty if that is UTF-8 with commas."""
        usual = self.separator == "," and self.encoding.startswith("utf-8")
        encoding = _NAMES.get(self.encoding, self.encoding.upper())
        mark = _SEPARATORS.get(self.separator, repr(self.separator))
        words = f"columns separated by {mark}, {encoding}"
        return () if usual else ("", str(self.path), f": {words}")

    def rows(self) -> Iterator[Row]:
        """Read the rows, those without any value left out.

        Raises:
            DataError: The file cannot be read as CSV.
        """
        for number, (line, cells) in enumerate(_cells(self.path, self.encoding, self.separator)):
            if number < self._skipped or not any(cell.strip() for cell in cells):
                continue
            # Excel fills rows up with empty cells.
            if len(cells) < self._width or any(cell.strip() for cell in cells[self._width :]):
                yield Row(line, fault="has other columns than line 1")
                continue
            named = zip(self.columns, self._places, strict=True)
            yield Row(line, {column: cells[place].strip() for column, place in named})

    def column(self, given: str | None, usual: tuple[str, ...], option: str) -> str:
        """Return the name of a column.

        Args:
            given: Name that the user gave; None if none.
            usual: Names that such a column usually has, in lower case, the most usual first; spaces
                and hyphens in the table's names count as underscores.
            option: Option that names the column, for errors; empty if the column need not exist.

        Returns:
            Empty if there is none and none need be.

        Raises:
            DataError: The table has no such column, or none that is usual.
        """
        if given is not None:
            if given not in self.columns:
                raise self.error(f"has no column {given!r}; its columns are ", self.names)
            return given
        names = {_plain(name): name for name in reversed(self.columns)}
        known = next((names[name] for name in usual if name in names), "")
        if not known and option:
            raise self.error(
                f"it is not clear which column is meant; name it with {option}. Its columns are ",
                self.names,
            )
        return known

    @property
    def names(self) -> str:
        """The columns, in one line. A table without a line of names has a file among them."""
        return ", ".join(self.columns)

    def error(self, *parts: str) -> DataError:
        """Return an error about the table; see `DataError.of`."""
        return _error(self.path, *parts)


def open_table(path: Path) -> Table:
    """Read the first line of a table, and find out how the file is written.

    Raises:
        DataError: The file cannot be read, is empty, is not text, or names a column twice.
    """
    if path.exists() and not path.is_file():
        # A pipe would be waited for.
        raise _error(path, "is not a file; name a CSV file")
    try:
        encoding = _encoding(path)
        with path.open(encoding=encoding, newline="") as file:
            lines = [line for line in (file.readline() for _ in range(_SAMPLE)) if line.strip()]
    except OSError as error:
        raise _error(path, f"cannot be read ({error.strerror})") from error
    if not lines:
        raise _error(path, "is empty; its first line must name the columns")
    first = lines[0].strip().strip('"').lower()
    if first.startswith("sep=") and len(first) == 5:
        # Excel's own note of the separator.
        separator, lines = first[4], lines[1:]
    else:
        separator = _separator(lines)
    skipped = 0
    for _, cells in _cells(path, encoding, separator):
        skipped += 1
        if any(cell.strip() for cell in cells) and not (first.startswith("sep=") and skipped == 1):
            names = [cell.strip() for cell in cells]
            break
    else:
        raise _error(path, "has no names of columns")
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise _error(
            path, "has several columns of the name ", repr(twice[0]), "; give each its own name"
        )
    # Programs that number rows leave the first name empty, and Excel the last ones.
    places = tuple(place for place, name in enumerate(names) if name)
    columns = tuple(names[place] for place in places)
    width = max(places) + 1
    return Table(path, columns, encoding, separator, places, width, skipped)


def check_classes(table: Table, *, named: bool) -> None:
    """Check that a table says which classes images have.

    Args:
        table: The table.
        named: Whether the user has named the columns of classes.

    Raises:
        DataError: Its first line names no columns, or it has a row for each box, of which one for
            each image would look like a class of the whole image. Says what to do.
    """
    file = next((n for n in table.columns if is_image(n) or n.startswith(_ADDRESSES)), None)
    if file is not None:
        raise table.error(
            "its first line has a file instead of names of columns",
            f" ({file})",
            "; add a first line such as file,class",
        )
    names = {_plain(name) for name in table.columns}
    corners = next((box for box in _BOXES if names >= box), None)
    if corners is not None and not named:
        raise table.error(
            f"has boxes, in the column{'s' * (len(corners) > 1)}"
            f" {', '.join(sorted(corners))}: export COCO's JSON or YOLO's texts, and use `prepare"
            " detection`; or name the column of the images' classes with --class-column"
        )


class RowProblems:
    """Problems of rows: the first ones and the number of the others, as all rows may have some."""

    def __init__(self) -> None:
        self._first: list[tuple[str, ...]] = []
        self._others = 0

    def add(self, line: int, *parts: str) -> None:
        """Add the fault of the row of a line; every second part is a detail."""
        if len(self._first) < _SHOWN:
            self._first.append((f"line {line}: {parts[0]}", *parts[1:]))
        else:
            self._others += 1

    def check(self, path: Path) -> None:
        """Raises:
        DataError: Rows of this file have problems.
        """
        if self._first:
            said, short = (
                f":\n{listing([*map(text, self._first)], _SHOWN, self._others)}"
                for text in ("".join, without_details)
            )
            error = DataError(f"{path}{said}")
            error.sentence = f"…{short}"
            raise error


def _encoding(path: Path) -> str:
    """Return the encoding of a text file: by its mark, or UTF-8 if it is valid, or Windows-1252.

    Raises:
        DataError: The file is not text.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        begin = file.read(512)
        for magic, remedy in _OTHERS.items():
            if begin.startswith(magic):
                raise _error(path, remedy)
        known = next((name for mark, name in _MARKS if begin.startswith(mark)), None)
        if known:
            return known
        zeros = begin[0::2].count(0), begin[1::2].count(0)
        if max(zeros) > len(begin) // 8:
            # Every other byte of a text in Latin letters.
            return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
        file.seek(0)
        strict = codecs.getincrementaldecoder("utf-8")()
        single = set[int]()
        valid = True
        while chunk := file.read(_CHUNK):
            single.update(chunk)
            try:
                strict.decode(chunk)
            except UnicodeDecodeError:
                valid = False
        try:
            strict.decode(b"", final=True)
        except UnicodeDecodeError:
            valid = False
    if valid:
        return "utf-8"
    undefined = single & {0x81, 0x8D, 0x8F, 0x90, 0x9D}
    return "latin-1" if undefined else "cp1252"


def _separator(lines: list[str]) -> str:
    """Return the separator that divides most lines into as many columns as the first one; of
    several, that of the most columns. A comma if none divides the first line.
    """

    def fitness(mark: str) -> tuple[bool, int, int]:
        try:
            rows = list(csv.reader(lines, delimiter=mark))
        except csv.Error:
            return False, 0, 0
        width = len(rows[0])
        return width > 1, sum(len(row) == width for row in rows), width

    return max(_SEPARATORS, key=fitness)


def _cells(path: Path, encoding: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row.

    Raises:
        DataError: The file cannot be read as CSV.
    """
    reader = None
    try:
        with path.open(encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            for cells in reader:
                yield reader.line_num, cells
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        line = f"line {reader.line_num}: " if reader else ""
        raise _error(path, "cannot be read as CSV", f" ({line}{error})") from error


def _error(path: Path, *parts: str) -> DataError:
    first, *more = parts
    return DataError.of("", str(path), f": {first}", *more)


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")
