"""Images whose classes, patients and splits a table says become a data set."""

import csv
import re

import pytest

from common.errors import ConfigError
from tests.trainer.support.data_sets.hospital import write_hospital
from tests.trainer.support.data_sets.image_folders import content, picture, records, rejected
from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.prepare import prepare_table
from trainer.errors import DataError


def folder(tmp_path, *names):
    for number, name in enumerate(names):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return tmp_path / "in"


def prepare(tmp_path, *lines, output="out", **options):
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    where = {"input": str(tmp_path / "in"), "table": str(tmp_path / "t.csv")}
    wanted = {"processes": 1, "output": str(tmp_path / output), **where, **options}
    return prepare_table(PrepareTableOptions(**wanted), "ml-trainer prepare table")


def classes(output):
    return {r.filename: r.text for split in ("train", "validation") for r in records(output, split)}


def columns(output):
    with (output / "columns.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_of_a_hospital_is_prepared_as_it_is(tmp_path, capsys):
    table = write_hospital(tmp_path / "in")
    output = tmp_path / "out"
    command = ["prepare", "table", "--input", str(tmp_path / "in"), "--table", str(table),
               "--output", str(output), "--processes", "1"]  # fmt: skip
    assert main(command) == 0
    printed = capsys.readouterr()
    said = "files in column 'Dateiname', classes in column 'Diagnose', groups in column 'Patient'"
    assert f"{table}: {said}" in printed.out
    assert "columns separated by semicolons, Windows-1252" in printed.out
    groups = r"^30 groups \(1 to \d images\), \d+ held out, none in both splits$"
    assert re.search(groups, printed.out, re.MULTILINE)
    manifest = load_manifest(output)
    assert manifest.classes == ("Normal", "Pneumonie", "Tumor")
    of_patient = {row["name"]: row["Patient"] for row in columns(output)}
    held_out, train = (
        {of_patient[r.filename] for r in records(output, split)}
        for split in ("validation", "train")
    )
    assert held_out
    assert not held_out & train
    with table.open(encoding="cp1252", newline="") as file:
        wanted = {row["Dateiname"]: row["Diagnose"] for row in csv.DictReader(file, delimiter=";")}
    del wanted["Aufnahme kaputt.png"]
    assert classes(output) == wanted
    assert {row["Standort"] for row in columns(output)} == {"Köln", "Bonn"}
    assert [row[1] for row in rejected(output)[1:]] == ["Aufnahme kaputt.png"]


LINES = ("id,class,patient,split,site", "1.jpg,cat,p1,train,x", "2.jpg,dog,p2,train,y",
         "3.jpg,cat,p3,val,x", "4.jpg,dog,p4,test,y")  # fmt: skip


def test_the_table_divides_and_groups(tmp_path, capsys):
    folder(tmp_path, *(f"{n}.jpg" for n in range(1, 6)))
    manifest = prepare(tmp_path, *LINES)
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 2, "validation": 1, "test": 1,
    }  # fmt: skip
    assert "left out, because no row names them: 1 file" in capsys.readouterr().out
    assert manifest.origin.intake.groups["count"] == 4
    assert [row["site"] for row in columns(tmp_path / "out")].count("x") == 2


def test_other_columns_and_no_groups_are_used_if_they_are_named(tmp_path):
    folder(tmp_path, *(f"{n}.jpg" for n in range(1, 5)))
    manifest = prepare(
        tmp_path, *LINES, class_column="site", group_column="none", split_column="none",
        keep_columns=("none",),
    )  # fmt: skip
    assert manifest.classes == ("x", "y")
    assert not manifest.origin.intake.grouped
    assert set(manifest.splits) == {"train", "validation"}
    assert not (tmp_path / "out" / "columns.csv").exists()


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (["file,x", "1.jpg,cat"], {}, "name it with --class-column. Its columns are file, x"),
        (["file,class", "9.jpg,cat"], {}, r"no column has names of files in .*, such as 1.jpg"),
        (["file,class", "1.jpg,cat", "1.jpg,dog"], {}, "line 3: '1.jpg' is in line 2 already"),
        (["file,class", "1.jpg,cat", "in/1.jpg,dog"], {"file_column": "y"}, "no column 'y'; its"),
        (["file,class,patient", "1.jpg,cat,"], {}, "line 2: '1.jpg' has no group in .* 'patient'"),
        (["file,class,split", "1.jpg,cat,dev"], {}, "line 2: '1.jpg' has 'dev' in the column"),
        (["file,class,split", "1.jpg,cat,test"], {}, "no image is for training"),
        (["file,class", "1.jpg"], {}, "line 2: has other columns than line 1"),
        (["file,class", "1.jpg,"], {}, "has no row with a class and a file"),
        (["file,class,patient,split", "1.jpg,a,p,train", "2.jpg,a,p,val"], {},
         "groups in more than one split: 1, such as p; .* the table's column of splits"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_named_with_what_to_do(tmp_path, lines, options, said):
    folder(tmp_path, "1.jpg", "2.jpg")
    with pytest.raises(DataError, match=said):
        prepare(tmp_path, *lines, **options)


def test_options_that_contradict_are_refused(tmp_path):
    folder(tmp_path, "1.jpg")
    with pytest.raises(ConfigError, match="--group-by: groups are those of --group-column"):
        prepare(tmp_path, *LINES, group_by="x", group_column="patient")
    with pytest.raises(ConfigError, match="--pages: a row is about the first image of a file"):
        prepare(tmp_path, *LINES, pages="all")
    with pytest.raises(ConfigError, match="--test: leaves nothing for training"):
        prepare(tmp_path, "file,class", "1.jpg,a", test=0.95)


def test_rows_without_a_file_or_a_class_are_rejected_and_counted(tmp_path):
    folder(tmp_path, *(f"{n}.jpg" for n in range(1, 7)))
    lines = ["file,class", *(f"{n}.jpg,{'ab'[n % 2]}" for n in range(1, 6)), "6.jpg,", "7.jpg,a"]
    with pytest.raises(DataError, match=r"2 of 7 files are not usable(.|\n)*--max-rejected 2 "):
        prepare(tmp_path, *lines)
    prepare(tmp_path, *lines, max_rejected="2")
    assert {row[1]: row[2] for row in rejected(tmp_path / "out")[1:]} == {
        "6.jpg": "has no class in the table (line 7)",
        "7.jpg": "is in the table, but not in the folder (line 8)",
    }


@pytest.mark.parametrize("names", ["hashed", "numbered"])
def test_changed_names_keep_no_column_unless_it_is_named(tmp_path, monkeypatch, capsys, names):
    monkeypatch.setenv("TRAINER_NAME_KEY", "0123456789abcdef" * 2)
    write_hospital(tmp_path / "in", patients=12)
    where = {"input": str(tmp_path / "in"), "table": str(tmp_path / "in" / "labels.csv"),
             "processes": 1, "names": names, "max_rejected": "9"}  # fmt: skip
    prepare_table(PrepareTableOptions(**where, output=str(tmp_path / "a")), "x")
    asked = {**where, "output": str(tmp_path / "b"), "keep_columns": ("Standort",)}
    prepare_table(PrepareTableOptions(**asked), "x")
    assert not (tmp_path / "a" / "columns.csv").exists()
    rows = columns(tmp_path / "b")
    assert set(rows[0]) == {"name", "Standort"}
    assert {row["name"] for row in rows} >= set(classes(tmp_path / "b"))
    everything = b"".join(p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file())
    printed = capsys.readouterr()
    for text in ("Aufnahme", "P000", "Pat_", "labels.csv"):
        assert text.encode() not in everything
        assert text not in printed.out + printed.err


def test_a_column_called_name_stays_apart_from_the_names_of_records(tmp_path):
    folder(tmp_path, "1.jpg", "2.jpg", "3.jpg", "4.jpg")
    rows = (f"{number}.jpg,fox{number},{'ab'[number % 2]}" for number in range(1, 5))
    prepare(tmp_path, "file,name,label", *rows)
    species = {row["name"]: row["name (table)"] for row in columns(tmp_path / "out")}
    assert species == {f"{number}.jpg": f"fox{number}" for number in range(1, 5)}


def test_columns_can_be_asked_for_later(tmp_path):
    folder(tmp_path, *(f"{n}.jpg" for n in range(1, 5)))
    prepare(tmp_path, *LINES, keep_columns=("none",))
    before = content(tmp_path / "out")
    prepare(tmp_path, *LINES, keep_columns=("site",))
    after = content(tmp_path / "out")
    assert after.keys() - before.keys() == {"columns.csv"}
    assert {k: v for k, v in after.items() if k != "columns.csv"} == before


def test_absolute_paths_below_the_input_are_found(tmp_path):
    folder(tmp_path, "a/1.jpg", "a/2.jpg", "b/1.jpg", "b/3.jpg")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    paths = [f"{tmp_path}/{name}" for name in ("in/a/1.jpg", "link/a/2.jpg", "in/b/1.jpg")]
    prepare(tmp_path, "file,class", *(f"{path},{'xy'[n % 2]}" for n, path in enumerate(paths)),
            input=str(tmp_path / "link"))  # fmt: skip
    assert sorted(classes(tmp_path / "out")) == ["a/1.jpg", "a/2.jpg", "b/1.jpg"]


def test_several_files_of_a_name_are_named(tmp_path):
    folder(tmp_path, "a/1.jpg", "b/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg")
    rows = ("1.jpg,x", "2.jpg,x", "3.jpg,x", "4.jpg,x")
    prepare(tmp_path, "file,class", *rows, max_rejected="1")
    assert {reason for _, _, reason in rejected(tmp_path / "out")} - {"reason"} == {
        "is in the table, but several files have this name (such as a/1.jpg and b/1.jpg); write the"
        " folder in front of it (line 2)"
    }
