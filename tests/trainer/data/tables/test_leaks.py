"""Folders and columns that look like patients, third splits, and groups in words."""

import pytest

from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import (
    content,
    manifest_of,
    picture,
    prepare,
    records,
    write_images,
)
from trainer.data.manifest import load_manifest
from trainer.data.tables.leaks import Column, identifying, shared_folders, shared_values
from trainer.errors import DataError


def write_patients(root, patients=20, images=4, top=""):
    """CLASS/patient/image, each patient with one class."""
    for number in range(patients * images):
        patient = number // images
        path = root / top / "ab"[patient % 2] / f"pat{patient:02d}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return root


def test_patients_in_both_splits_are_named_with_the_option_that_mends_it(tmp_path, capsys):
    root = write_patients(tmp_path / "in")
    prepare(root, tmp_path / "out", held_out=0.25)
    err = capsys.readouterr().err
    held_out = {r.filename.split("/")[1] for r in records(tmp_path / "out", "validation")}
    train = {r.filename.split("/")[1] for r in records(tmp_path / "out", "train")}
    assert (
        f"folders below the classes hold 4 images each, and {len(held_out & train)} of"
        f" {len(held_out)} held-out ones are in both splits"
    ) in err
    option = "--group-by '^[^/]+/([^/]+)/'"
    assert option in err
    grouped = prepare(root, tmp_path / "g", held_out=0.25, group_by="^[^/]+/([^/]+)/")
    printed = capsys.readouterr()
    assert "20 groups (4 images), 4 held out, none in both splits" in printed.out
    assert "both splits, so" not in printed.err
    assert grouped.origin.intake.groups == {
        "count": 20, "least": 4, "most": 4, "held_out": 4, "test": 0,
    }  # fmt: skip
    assert load_manifest(tmp_path / "g") == grouped


@pytest.mark.parametrize(
    "files",
    [
        [("train", "a/2019/1"), ("validation", "a/2019/2")] * 50,
        [("train" if n % 5 else "validation", f"a/{n}/x") for n in range(50)],
        [("train" if n < 40 else "validation", f"a/{n // 4}/{n}") for n in range(60)],
        [("train" if n % 5 else "validation", f"a/{n}") for n in range(50)],
        [],
    ],
    ids=["few folders", "an image each", "in one split each", "no folders", "nothing"],
)
def test_other_folders_are_not_patients(files):
    assert not shared_folders(files, 1, divided=False)


def test_the_upper_of_two_levels_and_a_divided_input_are_told_apart():
    files = [("train" if n % 4 else "test", f"pat{n // 8}/study{n // 2}/{n}") for n in range(160)]
    said = shared_folders(files, 0, divided=True)
    assert said.startswith("folders hold 8 images each, and 20 of 20 held-out ones are in both")
    assert "move each into one split, or prepare a folder that is not divided" in said
    assert said.endswith("--group-by '^([^/]+)/'")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("Patient", [f"{n // 4}" for n in range(80)], True),
        ("code", [f"X{n // 4:03d}" for n in range(80)], True),
        ("age", [f"{n // 4}" for n in range(80)], False),
        ("site", ["Köln", "Bonn"] * 40, False),
        ("Patient", [f"{n}" for n in range(80)], False),
        ("scanner", ["AX-300", "BX-200"] * 40, False),
    ],
)
def test_a_column_may_say_what_images_are_of(name, values, expected):
    assert identifying(name, values) is expected


def test_values_in_both_splits_are_named_with_the_option():
    values = {f"{n}": f"p{n // 4}" for n in range(80)}
    files = [("train" if n % 4 else "validation", f"{n}") for n in range(80)]
    (said,) = shared_values(files, [Column("case id", values.__getitem__)])
    assert said.startswith("the values of the column 'case id' hold 4 images each, and 20 of 20")
    assert said.endswith("--group-column 'case id' keeps each in one split")


def test_a_third_split_leaves_the_held_out_images_as_they_are(tmp_path):
    root = write_patients(tmp_path / "in")
    prepare(root, tmp_path / "two")
    three = prepare(root, tmp_path / "three", test=0.2)
    names = {
        split: {r.filename for r in records(tmp_path / "three", split)} for split in three.splits
    }
    assert {k: len(v) for k, v in names.items()} == {"train": 56, "validation": 8, "test": 16}
    assert names["validation"] == {r.filename for r in records(tmp_path / "two", "validation")}
    assert len(set.union(*names.values())) == 80
    assert "test" not in manifest_of(tmp_path / "two")["splits"]
    grouped = prepare(root, tmp_path / "g", test=0.2, group_by="(pat[0-9]+)")
    patients = {
        split: {r.filename.split("/")[1] for r in records(tmp_path / "g", split)}
        for split in grouped.splits
    }
    assert {k: len(v) for k, v in patients.items()} == {"train": 14, "validation": 2, "test": 4}
    assert grouped.origin.intake.groups["test"] == 4


def test_a_folder_test_beside_train_and_val_is_the_third_split(tmp_path):
    root = write_images(
        tmp_path / "in",
        {"train/a": 4, "train/b": 4, "val/a": 2, "val/b": 2, "test/a": 3, "test/b": 1},
    )
    manifest = prepare(root, tmp_path / "out")
    assert {name: split.class_counts for name, split in manifest.splits.items()} == {
        "train": (4, 4), "validation": (2, 2), "test": (3, 1),
    }  # fmt: skip
    with pytest.raises(DataError, match="--test: the input is divided into splits already"):
        prepare(root, tmp_path / "other", test=0.2)


def test_the_page_shows_groups_and_the_third_split(tmp_path):
    write_patients(tmp_path / "in")
    command = ("prepare", "folder", "--input", "in", "--output", "out", "--test", "0.2")
    done = run_trainer(*command, "--group-by", "(pat[0-9]+)", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = run_trainer("inspect", "out", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "out" / "inspect.html").read_text()
    assert "20 groups (4 images), 2 held out, 4 for tests, none in two splits" in page
    again = run_trainer(*command, "--group-by", "(pat[0-9]+)", cwd=tmp_path)
    assert "is already complete" in again.stdout
    assert "verify" not in content(tmp_path / "out")
