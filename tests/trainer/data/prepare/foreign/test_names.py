"""Splits and series by the names of files, and files of class names."""

from pathlib import Path

import pytest

from common.errors import ConfigError
from trainer.data.prepare.foreign.names import check_series, files_by_split, read_class_names
from trainer.errors import DataError

SPLITS = {
    "files": (["train.x", "validation.x"], {"train": 1, "validation": 1}),
    "words": (["a_Train_0.x", "a.valid.0.x"], {"train": 1, "validation": 1}),
    "folders": (["train/0.x", "val/b/0.x"], {"train": 1, "validation": 1}),
    "a folder in a folder": (
        ["c/train-text/0.x", "default/test/0.x"],
        {"train": 1, "validation": 1},
    ),
    "none": (["0.x", "1.x"], {"": 2}),
    "training alone": (["train-0.x", "train-1.x"], {"": 2}),
    "others": (
        ["train-0.x", "val-0.x", "test-0.x", "b.x"],
        {"train": 1, "validation": 1, "test": 1},
    ),
}


def found(names, *, divide=True):
    files = files_by_split({name: Path(name) for name in names}, "set", ".x", divide=divide)
    return {split: len(paths) for split, paths in files.items()}


@pytest.mark.parametrize("case", SPLITS)
def test_splits_are_found_by_words_in_names(case, capsys):
    names, wanted = SPLITS[case]
    assert found(names) == wanted
    out = capsys.readouterr().out
    assert ("never read:\n  - b.x" in out) == (case == "others")


def test_a_test_split_of_files_that_are_not_divided_is_not_read(capsys):
    names, _ = SPLITS["others"]
    assert found(names, divide=False) == {"train": 1, "validation": 1}
    assert "never read:\n  - b.x\n  - test-0.x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "divide", "split"),
    [
        ([], True, "train and the validation"),
        (["val-0.x"], True, "train"),
        (["train-0.x"], False, "validation"),
    ],
)
def test_a_split_without_files_is_told_with_the_names_that_are_expected(names, divide, split):
    with pytest.raises(DataError, match=rf"set: has no files \*\.x of the {split} split; .*train"):
        found(names, divide=divide)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train-00000-of-00003", "train-00002-of-00003"], "missing: train-00001-of-00003; copy"),
        (["t-2-of-3", "t-3-of-3"], "missing: t-1-of-3"),
        (["a-0-of-1", "b-0-of-1"], r"several series: a-\*-of-1, b-\*-of-1; keep"),
        (["a-0-of-1", "other"], r"several series: a-\*-of-1 and others"),
    ],
)
def test_series_with_gaps_and_mixed_series_are_refused(names, words):
    with pytest.raises(DataError, match=words):
        check_series("set", "train", names)


@pytest.mark.parametrize("names", [["a", "b"], ["t-0-of-2", "t-1-of-2"], ["t-1-of-2", "t-2-of-2"]])
def test_whole_series_and_names_of_none_are_accepted(names):
    check_series("set", "train", names)


def test_equal_names_of_classes_are_told_apart_and_a_file_of_them_must_be_readable(tmp_path):
    (tmp_path / "names.txt").write_text("crane\ncrane\ncat\n")
    assert read_class_names(str(tmp_path / "names.txt")) == ("crane (0)", "crane (1)", "cat")
    assert read_class_names(None) == ()
    with pytest.raises(ConfigError, match=r"--class-names: .*cannot be read"):
        read_class_names(str(tmp_path / "none.txt"))
    (tmp_path / "names.txt").write_text("a\n\nb\n")
    with pytest.raises(ConfigError, match="one name on each line"):
        read_class_names(str(tmp_path / "names.txt"))
