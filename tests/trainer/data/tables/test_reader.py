"""The reader of tables: files as people and programs write them."""

import codecs
import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.tables.file_names import ByName
from trainer.data.tables.reader import open_table
from trainer.errors import DataError

TEXT = 'Datei;Diagnose;Alter, Jahre\r\n"a; b.png";Tumor;"6,5"\r\nKöln.png;Normal;7\r\n'
ROWS = [
    {"Datei": "a; b.png", "Diagnose": "Tumor", "Alter, Jahre": "6,5"},
    {"Datei": "Köln.png", "Diagnose": "Normal", "Alter, Jahre": "7"},
]


def written(tmp_path, content):
    path = tmp_path / "labels.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def values(table):
    return [dict(row.values) for row in table.rows()]


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (TEXT.encode(), "semicolons, UTF-8"),
        (codecs.BOM_UTF8 + TEXT.encode(), "semicolons, UTF-8"),
        (TEXT.encode("cp1252"), "semicolons, Windows-1252"),
        (TEXT.encode("utf-16"), "semicolons, UTF-16"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "semicolons, UTF-16"),
        (TEXT.encode("utf-16-le"), "semicolons, UTF-16-LE"),
        (TEXT.replace("Tumor", "Tumor\x81").encode("latin-1"), "semicolons, LATIN-1"),
        (("sep=;\r\n" + TEXT).encode("cp1252"), "semicolons, Windows-1252"),
        (TEXT.replace(";", "\t").replace("a\t", "a;").encode(), "tabs, UTF-8"),
        (TEXT.replace(";", "|").replace("a|", "a;").encode(), "bars, UTF-8"),
        (("\r\n" + TEXT + ";;\r\n\r\n").encode(), "semicolons, UTF-8"),
        (TEXT.replace("\r\n", ";;\r\n").encode(), "semicolons, UTF-8"),
        (TEXT.replace("\r\n", "\n").encode(), "semicolons, UTF-8"),
    ],
)
def test_separator_and_encoding_are_found(tmp_path, content, form):
    table = open_table(written(tmp_path, content))
    assert "".join(table.form).endswith(f"columns separated by {form}")
    assert [{k: v.replace("\x81", "") for k, v in row.items()} for row in values(table)] == ROWS


def test_a_table_of_commas_in_utf_8_needs_no_word(tmp_path):
    table = open_table(written(tmp_path, "file,class\na.png,x;y\n\nb.png,z\n"))
    assert not table.form
    assert [(row.line, row.values["class"]) for row in table.rows()] == [(2, "x;y"), (4, "z")]


def test_the_numbers_of_rows_that_programs_write_are_no_column(tmp_path):
    table = open_table(written(tmp_path, ",file,class\n0,a.png,x\n1,b.png,y\n"))
    assert values(table) == [{"file": "a.png", "class": "x"}, {"file": "b.png", "class": "y"}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; its first line must name the columns"),
        (b"\n \n", "is empty; its first line must name the columns"),
        (codecs.BOM_UTF8, "is empty"),
        (b"a,b,a\n1,2,3\n", "has several columns of the name 'a'; give each its own name"),
        (b"PK\x03\x04rest", "is a workbook of Excel or an archive; save the table as CSV"),
        (b"\xd0\xcf\x11\xe0", "is a workbook of Excel"),
        (b"\x1f\x8b", "is compressed with gzip"),
        (b",,\n,,\n", "has no names of columns"),
        (b'"a,b\n1,2\n', "cannot be read as CSV"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_what_to_do(tmp_path, content, said):
    with pytest.raises(DataError) as refused:
        open_table(written(tmp_path, content))
    assert str(refused.value).startswith(str(tmp_path / "labels.csv"))
    assert said in str(refused.value)


def test_a_row_of_another_width_has_a_fault_and_its_line(tmp_path):
    table = open_table(written(tmp_path, "a,b\n1\n1,2\n1,2,3\n"))
    assert [(row.line, bool(row.fault)) for row in table.rows()] == [
        (2, True),
        (3, False),
        (4, True),
    ]


def test_the_columns_are_listed_if_one_is_missing(tmp_path):
    table = open_table(written(tmp_path, TEXT))
    with pytest.raises(DataError, match="no column 'x'; its columns are Datei, Diagnose, Alter"):
        table.column("x", (), "--class-column")
    with pytest.raises(DataError, match=r"name it with --class-column\. Its columns are Datei"):
        table.column(None, ("label",), "--class-column")
    assert table.column(None, ("label", "diagnose"), "--class-column") == "Diagnose"
    assert table.column(None, ("label",), "") == ""


CELLS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6).filter(
    lambda text: text == text.strip() and not text.lower().startswith("sep=")
)


@settings(max_examples=60)
@given(
    st.lists(CELLS, min_size=2, max_size=4, unique=True),
    st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=4),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_was_written_with_quotes_is_read(tmp_path_factory, names, rows, mark, encoding):
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=mark, quoting=csv.QUOTE_ALL)
    writer.writerows([names, *(row[: len(names)] for row in rows)])
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_bytes(buffer.getvalue().encode(encoding))
    table = open_table(path)
    assert table.columns == tuple(names)
    assert values(table) == [dict(zip(names, row, strict=False)) for row in rows]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/x.png", "a/x.png"),
        ("a\\x.png", "a/x.png"),
        ("./a/x.png", "a/x.png"),
        ("y.png", "b/y.png"),
        ("y", "b/y.png"),
        ("x.png", None),
        ("c/y.png", None),
        ("e\u0301.png", "b/\u00e9.png"),
        ("gone.png", None),
    ],
)
def test_a_table_means_a_file_by_its_path_or_its_name(name, expected):
    files = ByName(dict.fromkeys(("a/x.png", "b/x.png", "b/y.png", "b/\u00e9.png"), 1))
    assert files.path(name) == expected


def test_an_absolute_path_below_a_root_is_the_path_from_it():
    files = ByName(dict.fromkeys(("a/x.png", "b/x.png"), 1), roots=("/in", "/real/caf\u00e9"))
    names = ("/in/b/x.png", "/real/cafe\u0301/a/x.png", "/other/b/x.png", "/in/x.png")
    assert [files.path(name) for name in names] == ["b/x.png", "a/x.png", None, None]


def test_files_of_one_name_are_told_from_a_missing_one():
    files = ByName(dict.fromkeys(("a/x.png", "b/x.png", "c/x.png", "y.png"), 1))
    assert files.several("x.png") == files.several("x") == "a/x.png and b/x.png"
    assert [files.several(name) for name in ("gone.png", "y.png", "d/x.png")] == ["", "", ""]
    assert files.count(["x", "y", "z"]) == 2


def test_a_name_without_a_folder_is_of_a_file_in_any():
    values = ByName({"x.png": "north", "a/y.png": "south"})
    assert [values.get(name) for name in ("any/x.png", "x", "a/y.png", "b/y.png")] == [
        "north", "north", "south", None,
    ]  # fmt: skip
