"""New names of records: in every output the new one, and the old ones in the table alone."""

import csv
import stat
from dataclasses import replace

import pytest

from common.errors import ConfigError
from tests.trainer.support.data_sets.image_folders import (
    by_name,
    every_record,
    prepare,
    write_images,
)
from tests.trainer.support.data_sets.planted import planted
from trainer.cli import main
from trainer.data.intake.names import KEY_VARIABLE, Naming, make_naming
from trainer.data.manifest import load_manifest
from trainer.data.prepare.rejected import REJECTED

KEY = "a key of sufficient length"


@pytest.fixture
def patients(tmp_path):
    """Planted files of two classes, in folders and under names that hold identifiers."""
    made = planted()
    for label in ("benign", "malignant"):
        for name, data in made.files.items():
            patient = tmp_path / "in" / label / made.text("patient")
            patient.mkdir(parents=True)
            (patient / f"{made.text('file')}.{name.rpartition('.')[2]}").write_bytes(data)
        (patient / f"{made.text('broken')}.png").write_bytes(data[:40])
        (patient / f"a.{made.text('suffix')}").write_bytes(data)
    return made


def everything(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ["hashed", "numbered"])
def test_no_output_has_an_identifier(patients, tmp_path, monkeypatch, capsys, mode):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    output, table = tmp_path / "out", tmp_path / "names.csv"
    command = ["prepare", "folder", "--input", str(tmp_path / "in"), "--output", str(output),
               "--names", mode, "--max-rejected", "90%", "--held-out", "0.5",
               "--name-table", str(table)]  # fmt: skip
    assert main(command) == 0
    printed = capsys.readouterr()
    written = everything(output)
    names = {path.name for path in output.rglob("*")}
    for text in (written, str(names).encode(), (printed.out + printed.err).encode()):
        assert patients.found_in(text) == []
        assert KEY.encode() not in text
    assert len((output / REJECTED).read_text().splitlines()) == 3
    assert len(patients.texts) >= 60
    manifest = load_manifest(output)
    assert manifest.origin.intake.names == mode
    assert manifest.origin.intake.found["EXIF"] == 6
    assert "--input" not in manifest.origin.command
    # The table alone leads back.
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    rows = list(csv.DictReader(table.open()))
    files = {
        path.relative_to(tmp_path / "in").as_posix() for path in (tmp_path / "in").rglob("*.*")
    }
    assert {row["file"] for row in rows} == files
    stored = {(split, record.filename) for split, record in every_record(output)}
    assert stored <= {(row["split"], row["name"]) for row in rows}
    assert len({(row["split"], row["name"]) for row in rows}) == len(rows)


def test_a_hashed_name_depends_on_its_key_alone(tmp_path):
    write_images(tmp_path / "in", {"cat": 3, "dog": 3})
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    first = prepare(tmp_path / "in", tmp_path / "a", names="hashed", name_key=str(file))
    again = prepare(tmp_path / "in", tmp_path / "b", names="hashed", name_key=str(file), seed=0)
    file.write_text(f"another {KEY}")
    other = prepare(tmp_path / "in", tmp_path / "c", names="hashed", name_key=str(file))
    assert first.version == again.version != other.version
    naming = Naming("hashed", KEY.encode())
    known = {naming.hashed(p.relative_to(tmp_path / "in").as_posix().encode())
             for p in (tmp_path / "in").rglob("*.*")}  # fmt: skip
    assert by_name(tmp_path / "a").keys() == known
    assert KEY not in repr(naming)


def test_what_options_of_names_must_be(tmp_path):
    assert make_naming("hashed", None, {})[1][0].startswith("--name-key: is missing")
    assert "fewer than 16" in make_naming("hashed", None, {KEY_VARIABLE: "short"})[1][0]
    assert "cannot be read" in make_naming("hashed", str(tmp_path / "none"), {})[1][0]
    assert make_naming("numbered", None, {}) == (Naming("numbered"), [])
    write_images(tmp_path / "in", {"cat": 2, "dog": 2})
    for options, flag in (
        ({"names": "numbered", "name_table": str(tmp_path / "out" / "t.csv")}, "--name-table"),
        ({"name_table": str(tmp_path / "t.csv")}, "--name-table"),
        ({"group_by": "("}, "--group-by"),
    ):
        with pytest.raises(ConfigError, match=flag):
            prepare(tmp_path / "in", tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("holds a JPEG, but .doe is no image", "holds a JPEG, but … is no image"),
        ("has no mask MRN123/x.png", "has no mask …"),
        ("cannot be decoded (broken chunk b'Doe')", "cannot be decoded"),
        ("is empty", "is empty"),
    ],
)  # fmt: skip
def test_reasons_quote_nothing(reason, shown):
    assert Naming("hashed", b"k" * 16).reason(reason, "MRN123/scan.Doe") == shown
    assert replace(Naming()).reason(reason, "MRN123/scan.Doe") == reason
