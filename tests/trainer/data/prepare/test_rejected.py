"""Files that are left out: listed, counted, and at most so many."""

import re
import shlex
import shutil
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import (
    content,
    picture,
    prepare,
    rejected,
    write_images,
)
from trainer.data.prepare.encode import make_rules
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.rejected import allowed_rejections
from trainer.errors import DataError


@pytest.fixture
def with_faults(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "val/cat": 3})
    (root / "train" / "cat" / "z.jpg").write_text("<html>")
    (root / "train" / "cat" / "a, b.jpg").write_bytes(b"")
    (root / "train" / "cat" / ".hidden").write_text("x")
    (root / "train" / "cat" / "note.txt").write_text("unremarkable")
    (root / "val" / "labels.csv").write_text("file;class")
    (root / "val" / "cat" / "cut.jpg").write_bytes(picture(0)[:-50])
    return root


ROWS = [
    ("split", "name", "reason"),
    ("train", "cat/a, b.jpg", "is empty"),
    ("train", "cat/z.jpg", "is not an image of a known kind (JPEG, PNG, WEBP, BMP, GIF, TIFF)"),
]
OTHERS = [
    ("train", "cat/.hidden", "is a hidden file"),
    ("train", "cat/note.txt", "is not an image, by its name and its content"),
    ("validation", "labels.csv", "lies in no class's folder"),
]


def test_what_should_be_an_image_is_listed_first_and_only_it_is_counted(
    with_faults, tmp_path, capsys
):
    manifest = prepare(with_faults, tmp_path / "out", max_rejected="3")
    found = rejected(tmp_path / "out")
    assert found[:3] == ROWS
    assert found[3][:2] == ("validation", "cat/cut.jpg")
    assert found[3][2].startswith("cannot be decoded")
    assert found[4:] == OTHERS
    assert manifest.splits["train"].examples == 9
    assert manifest.origin.treatment["rejected"] == 6
    said = "3 files rejected and 3 files left out that are not images; see"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "fits"), [("2", False), ("19%", False), ("20%", True)])
def test_the_limit_is_a_number_or_a_part_of_all_files(with_faults, tmp_path, limit, fits):
    # 3 of 15 are 20 %; the hidden file, the text and the table are not among them.
    if fits:
        prepare(with_faults, tmp_path / "out", max_rejected=limit)
    else:
        with pytest.raises(DataError, match=rf"of 15 files.* more than --max-rejected {limit}"):
            prepare(with_faults, tmp_path / "out", max_rejected=limit)


def test_too_many_end_the_command_with_a_list_and_more_may_be_allowed(with_faults, tmp_path):
    # By one process, so that the shard of the training images comes first.
    command = ["prepare", "folder", "--input", "in", "--output", "out", "--processes", "1"]
    failed = run_trainer(*command, cwd=tmp_path)
    assert failed.returncode == DataError.exit_code
    assert "1 file: train/cat/a, b.jpg is empty" in failed.stderr
    assert "out/rejected.csv lists those found so far" in failed.stderr
    assert rejected(tmp_path / "out")[1:3] == ROWS[1:3]
    assert not (tmp_path / "out" / "manifest.json").exists()
    # The line that the error prints, as it is.
    (line,) = (text for text in failed.stderr.splitlines() if "ml-trainer prepare" in text)
    assert "--max-rejected" in shlex.split(line)
    done = run_trainer(*command, "--max-rejected", "50%", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(rejected(tmp_path / "out")) == 7
    prepare(with_faults, tmp_path / "other", max_rejected="50%")
    assert content(tmp_path / "out").keys() == content(tmp_path / "other").keys()


def test_the_printed_command_is_the_one_that_continues(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 60, "dog": 60})
    for number in range(4):
        (root / "cat" / f"{number}.png").write_bytes(b"")
    (root / "dog" / "a b.jpg").write_text("<html>")
    where = ["--input", "in", "--output", "out", "--seed", "3", "--max-rejected", "2%"]
    failed = run_trainer("prepare", "folder", *where, cwd=tmp_path)
    assert failed.returncode == DataError.exit_code
    assert "5 of 125 files are not usable images" in failed.stderr
    told = r"  - 4 files, such as: \w+/cat/\d\.png is empty\n  - 1 file: \w+/dog/a b\.jpg is not an"
    assert re.search(told, failed.stderr)
    (line,) = (text for text in failed.stderr.splitlines() if "ml-trainer prepare" in text)
    script, *arguments = shlex.split(line)
    assert line.startswith("    ")
    assert shutil.which(script)
    done = run_trainer(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "continuing" in done.stdout
    assert "5 files rejected; see" in done.stdout


def test_without_rejected_files_there_is_no_list(cats_and_dogs, tmp_path):
    prepare(cats_and_dogs, tmp_path / "out")
    assert sorted(content(tmp_path / "out")) == [
        "manifest.json",
        "near-duplicates.csv",
        "train-00000-of-00001.tfrecord",
        "validation-00000-of-00001.tfrecord",
    ]


def test_a_split_of_which_all_files_are_rejected_is_no_data_set(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 3})
    (root / "val" / "cat").mkdir(parents=True)
    (root / "val" / "cat" / "a.jpg").write_text("no image")
    with pytest.raises(DataError, match="validation: has no usable image"):
        prepare(root, tmp_path / "out", max_rejected="100%")


def test_nothing_but_unusable_files_are_told_at_once(tmp_path):
    root = tmp_path / "in"
    (root / "cat").mkdir(parents=True)
    for number in range(3):
        (root / "cat" / f"{number}.jpg").write_text("no image")
    with pytest.raises(DataError, match=r"none of the first 2 files .* is not an image"):
        prepare(root, tmp_path / "out", max_rejected="100%")


@given(st.integers(0, 10**7), st.decimals(0, 100, places=3))
def test_a_percentage_allows_exactly_its_part(files, percent):
    wanted = floor(files * Fraction(percent) / 100)
    assert allowed_rejections(f"{percent:f}%", files) == wanted


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_number_allows_itself(number, files):
    assert allowed_rejections(str(number), files) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "-1%", "%", "1 %", "nan%", "1e3"])
def test_other_limits_are_refused(text):
    with pytest.raises(ConfigError, match="--max-rejected"):
        make_rules(WriteOptions(max_rejected=text))


@pytest.mark.parametrize(
    ("text", "side", "quality"), [("292:85", 292, 85), ("64", 64, 90), ("1:100", 1, 100)]
)
def test_a_side_and_a_quality_are_read(text, side, quality):
    rules = make_rules(WriteOptions(reencode=text))
    assert (rules.short_side, rules.quality) == (side, quality)


@pytest.mark.parametrize("text", ["0", "292:", ":90", "292:0", "292:101", "big", "292x90", "-5"])
def test_other_sides_and_qualities_are_refused(text):
    with pytest.raises(ConfigError, match="--reencode"):
        make_rules(WriteOptions(reencode=text))
