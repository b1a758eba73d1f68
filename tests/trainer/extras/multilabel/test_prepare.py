"""Images of a table and of class folders become records with their classes."""

import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from common.errors import ConfigError
from tests.trainer.support.data_sets.image_files import noise, save
from tests.trainer.support.data_sets.image_folders import every_record
from tests.trainer.support.data_sets.parquet_files import (
    IMAGE,
    describe,
    stored,
    write_file,
)
from trainer.data.manifest import check_trainable
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.multilabel.leaf import MULTI_HOT, MULTILABEL
from trainer.extras.multilabel.options import PrepareMultilabelOptions
from trainer.extras.multilabel.prepare import prepare_multilabel
from trainer.extras.multilabel.table import read_table
from trainer.fitting.suggestion import print_suggestion
from trainer.presets import parse_train


def picture(path, seed):
    save(path, noise(seed))


def folder(tmp_path, *names):
    for number, name in enumerate(names):
        picture(tmp_path / "images" / name, number)
    return tmp_path


def table(tmp_path, *lines):
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return str(tmp_path / "t.csv")


def prepare(tmp_path, **options):
    given = {"processes": 1, "held_out": 0.5, **options}
    return prepare_multilabel(
        PrepareMultilabelOptions(
            input=str(tmp_path / "images"), output=str(tmp_path / "out"), **given
        ),
        "prepare multilabel",
    )


def records(tmp_path, manifest):
    """The classes of each image by its split and name."""
    return {
        (split, record.filename): [
            manifest.classes[number] for number in np.flatnonzero(list(record.more[MULTI_HOT]))
        ]
        for split, record in every_record(tmp_path / "out")
    }


def names(found):
    return {name: classes for (_, name), classes in found.items()}


EXPECTED = {"1.png": ["cat", "dog"], "a/2.png": ["cat"], "3.png": [], "4.png": ["dog"]}


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["file,classes", "1.png,dog|cat", "a/2.png, cat |", "3.png,", "4.png,dog|dog"], {}),
        (
            ["tags,x,name", "dog cat,7,1.png", "cat,,a/2.png", ",,3.png", "dog,,4.png"],
            {"separator": " ", "file_column": "name"},
        ),
        (["file,cat,dog", "1.png,1,1", "a/2.png,1.0,0", "3.png,0,0", "4.png,0,1"], {}),
        (
            ["id,age,dog,cat", "1.png,40,1,1", "a/2.png,,0,1", "3.png,9,0,0", "4.png,x,1,0"],
            {"classes": ("cat", "dog")},
        ),
    ],
    ids=["names", "other names of columns", "columns of classes", "some columns"],
)
def test_a_table_says_which_classes_an_image_has(tmp_path, capsys, lines, options):
    folder(tmp_path, "1.png", "a/2.png", "3.png", "4.png", "unnamed.png")
    manifest = prepare(tmp_path, table=table(tmp_path, *lines), **options)
    assert manifest.classes == ("cat", "dog")
    assert names(records(tmp_path, manifest)) == EXPECTED
    assert "without a class: 1 image of 4 in the table" in capsys.readouterr().out
    verify(tmp_path / "out", VerifyOptions(deep=True, processes=1))
    check_trainable(manifest, None, "set", MULTILABEL)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"uncertain": "positive", "blank": "negative"}, {"1": ["a", "b"], "2": ["b"], "3": ["a"]}),
        ({"uncertain": "negative", "blank": "positive"}, {"1": ["a"], "2": ["a", "b"], "3": ["a"]}),
        ({"uncertain": "ignore", "blank": "negative"}, {"2": ["b"], "3": ["a"]}),
        ({"uncertain": "ignore", "blank": "ignore"}, {"3": ["a"]}),
    ],
)
def test_uncertain_and_blank_classes_mean_what_is_asked_for(tmp_path, options, expected):
    lines = ["file,a,b", "1.png,1,-1", "2.png,,1", "3.png,1.0,0"]
    asked = PrepareMultilabelOptions(**options)
    found = read_table(Path(table(tmp_path, *lines)), asked)
    assert {row.file[0]: list(row.classes) for row in found.rows.values()} == expected
    left_out = 3 - len(expected)
    assert any("left out for uncertain or blank" in note for note in found.notes) == bool(left_out)


def test_a_changed_class_makes_another_data_set(tmp_path):
    folder(tmp_path, "1.png", "2.png", "3.png")
    prepare(tmp_path, table=table(tmp_path, "file,classes", "1.png,a", "2.png,b", "3.png,a"))
    changed = table(tmp_path, "file,classes", "1.png,a|b", "2.png,b", "3.png,a")
    with pytest.raises(DataError, match="other"):
        prepare(tmp_path, table=changed)


@pytest.mark.parametrize("by", ["column", "folders"])
def test_images_that_are_divided_stay_so(tmp_path, by):
    folder(tmp_path, "train/1.png", "train/2.png", "val/3.png", "test/4.png")
    lines = ["file,classes,split", "train/1.png,a,train", "train/2.png,a|b,train",
             "val/3.png,b,val", "test/4.png,b,test"]  # fmt: skip
    if by == "folders":
        lines = [line.rpartition(",")[0] for line in lines]
    manifest = prepare(tmp_path, table=table(tmp_path, *lines))
    assert {split for split, name in records(tmp_path, manifest) if "train" in name} == {"train"}
    assert [name for split, name in records(tmp_path, manifest) if split == "validation"] == [
        "val/3.png"
    ]
    assert [name for split, name in records(tmp_path, manifest) if split == "test"] == [
        "test/4.png"
    ]


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (["file,classes", "1.png,a", "1.png,b"], {}, "line 3: '1.png' is in line 2 already; write"),
        (["file,classes", "1.png,a|c"], {"classes": ("a", "b")},
         "line 2: '1.png' has the class 'c', which --classes does not name; add it there"),
        (["file,a,b", "1.png,1,0", "2.png,-1,1"], {},
         "line 3: '2.png' has '-1' in the column 'a'; write 1 or 0, say what it means with"
         " --uncertain positive|negative|ignore, or name"),
        (["file,a,b", "1.png,1,0", "2.png,,1"], {"uncertain": "positive"},
         "line 3: '2.png' has '' in the column 'a'; write 1 or 0, say what it means with --blank"),
        (["file,a,b", "1.png,1,0", "2.png,2,1"], {"uncertain": "positive", "blank": "negative"},
         "line 3: '2.png' has '2' in the column 'a'; write 1 or 0, or name"),
        (["file,classes,split", "1.png,a,dev"], {}, "'1.png' has the split 'dev'; write train"),
        (["file,classes", "1.png"], {}, "line 2: has other columns than line 1"),
        (["file,classes", " ,a"], {}, "line 2: names no file in the column 'file'"),
        (["file,classes"], {}, "has no rows"),
        (["file,classes", "1.png,a"], {"class_column": "tag"},
         "has no column 'tag'; its columns are file, classes"),
        (["file,classes,split", "1.png,a,test"], {}, "no image is for training"),
        (["file,classes", '1.png,"a'], {}, "cannot be read as CSV"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_named_with_what_to_do(tmp_path, lines, options, said):
    folder(tmp_path, "1.png", "2.png")
    path = table(tmp_path, *lines)
    with pytest.raises(DataError) as refused:
        prepare(tmp_path, table=path, **options)
    assert str(refused.value).startswith(path)
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_rejected_with_its_line(tmp_path):
    folder(tmp_path, "1.png", "2.png")
    path = table(tmp_path, "file,classes", "1.png,a", "gone.png,b", "2.png,b")
    with pytest.raises(DataError, match=r"gone.png is named by line 3 of t.csv, but is not in"):
        prepare(tmp_path, table=path)
    prepare(tmp_path, table=path, max_rejected="1")
    assert "gone.png" in (tmp_path / "out" / "rejected.csv").read_text()


@pytest.mark.parametrize("form", [r".\a\{}.png", "{}.png", "{}", "a/{}.png", "/in/a/{}.png"])
def test_a_table_names_files_as_that_of_one_class_per_image(tmp_path, form):
    folder(tmp_path, "a/1.png", "a/2.png", "a/3.png")
    form = form.replace("/in", str(tmp_path / "images"))
    lines = [f"{form.format(number)},{'xy'[number % 2]},{number}" for number in (1, 2, 3)]
    path = table(tmp_path, "file,classes,patient", *lines)
    images = names(records(tmp_path, prepare(tmp_path, table=path, group_column="patient")))
    assert images == {"a/1.png": ["y"], "a/2.png": ["x"], "a/3.png": ["y"]}
    again = table(tmp_path, "file,classes,patient", *lines, r"a\3.png,x,3")
    with pytest.raises(DataError, match=r"line 5: .* is in line 4 already; write one row"):
        prepare(tmp_path, table=again, group_column="patient")


def test_several_files_of_a_name_are_named(tmp_path):
    folder(tmp_path, "a/1.png", "b/1.png", "a/2.png", "b/3.png")
    path = table(tmp_path, "file,classes", "1.png,x", "2.png,x", "3.png,y")
    prepare(tmp_path, table=path, max_rejected="1")
    assert (
        "is named by line 2 of t.csv, but several files have this name (such as a/1.png and"
    ) in (tmp_path / "out/rejected.csv").read_text()


def test_folders_of_splits_may_be_written_with_backslashes(tmp_path):
    folder(tmp_path, "train/1.png", "train/2.png", "val/3.png")
    lines = [r"train\1.png,a", r"train\2.png,b", r"val\3.png,a"]
    manifest = prepare(tmp_path, table=table(tmp_path, "file,classes", *lines))
    assert {name: split for split, name in records(tmp_path, manifest)}["val/3.png"] == "validation"


def test_a_wrong_separator_is_told(tmp_path, capsys):
    folder(tmp_path, "1.png", "2.png")
    prepare(tmp_path, table=table(tmp_path, "file,classes", "1.png,a;b", "2.png,b"))
    assert "if ';' is between two of them, give --separator ';'" in capsys.readouterr().out


def test_equal_files_in_several_class_folders_are_one_image(tmp_path, capsys):
    folder(tmp_path, "cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png")
    (tmp_path / "images/dog/same.png").write_bytes((tmp_path / "images/cat/1.png").read_bytes())
    manifest = prepare(tmp_path)
    assert names(records(tmp_path, manifest)) == {
        "cat/1.png": ["cat", "dog"], "cat/2.png": ["cat"], "dog/3.png": ["dog"],
        "dog/4.png": ["dog"],
    }  # fmt: skip
    assert "1 image of 4 in several classes" in capsys.readouterr().out


def test_folders_of_two_splits_keep_equal_paths_apart(tmp_path):
    folder(tmp_path, "train/cat/1.png", "train/dog/2.png", "val/cat/1.png", "val/dog/1.png")
    (tmp_path / "images/val/dog/1.png").write_bytes(
        (tmp_path / "images/val/cat/1.png").read_bytes()
    )
    assert records(tmp_path, prepare(tmp_path)) == {
        ("train", "train/cat/1.png"): ["cat"],
        ("train", "train/dog/2.png"): ["dog"],
        ("validation", "val/cat/1.png"): ["cat", "dog"],
    }


def test_an_option_that_does_not_apply_is_refused(tmp_path):
    folder(tmp_path, "cat/1.png")
    with pytest.raises(ConfigError, match=r"--separator: is about a table; add --table FILE"):
        prepare(tmp_path, separator=";")
    with pytest.raises(ConfigError, match="--pages: classes are of the first image of a file"):
        prepare(tmp_path, pages="all")
    with pytest.raises(ConfigError, match=r"--table: no file .*none.csv"):
        prepare(tmp_path, table=str(tmp_path / "none.csv"))


def test_the_suggested_run_is_for_this_task(tmp_path, capsys):
    folder(tmp_path, "cat/1.png", "dog/2.png", "dog/3.png", "cat/4.png")
    prepare(tmp_path)
    print_suggestion(tmp_path / "out")
    said = [line for line in capsys.readouterr().out.splitlines() if "train --" in line]
    config = parse_train(shlex.split(said[0])[2:])
    assert (config.task, config.model.network) == ("multilabel", "resnet")
    with pytest.raises(DataError, match="prepare multilabel"):
        check_trainable(_parquet_of_labels(tmp_path), None, "set", MULTILABEL)


def _parquet_of_labels(tmp_path):
    schema = pa.schema({"image": IMAGE, "label": pa.int64()})
    for split in ("train", "validation"):
        rows = pa.table([[stored(1), stored(2)], [0, 1]], schema=schema)
        write_file(tmp_path / "labels" / f"{split}.parquet", rows)
    return describe(tmp_path / "labels")
