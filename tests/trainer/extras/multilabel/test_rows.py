"""Rows of Parquet files, with lists of labels or of names of classes, are read where they are."""

import numpy as np
import pyarrow as pa
import pytest

from common.errors import ConfigError
from tests.trainer.support.command import TINY, final_state
from tests.trainer.support.data_sets.parquet_files import (
    IMAGE,
    describe,
    records,
    stored,
    write_file,
)
from tests.trainer.support.forked import fork_trainer
from trainer.data.manifest import check_trainable
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.multilabel.leaf import MULTI_HOT, MULTILABEL
from trainer.extras.parquet import describe as parquet_describe
from trainer.extras.parquet.files import UnfitFileError, find_columns, read_layout
from trainer.fitting.suggestion import task_of

NUMBERS, TEXTS = pa.int64(), pa.string()
LISTS = [[0, 2], [1], [], [2, 2]]
NAMED = [["a", "c"], ["b"], [], ["c", " c "]]


def table(lists, kind=NUMBERS, column="labels", more=None):
    """Images and, in a column, their lists; and other columns of some type and values."""
    fields = {"image_id": pa.int64(), "image": IMAGE, column: pa.list_(kind)}
    schema = pa.schema(fields | {name: kind for name, (kind, _) in (more or {}).items()})
    count = len(lists)
    columns = [range(count), map(stored, range(count)), lists,
               *(values for _, values in (more or {}).values())]  # fmt: skip
    return pa.table([[*values] for values in columns], schema=schema)


def put(folder, train, validation=None, rows=100):
    write_file(folder / "train.parquet", train, rows)
    write_file(folder / "validation.parquet", validation or train, rows)
    return folder


@pytest.fixture
def abc(tmp_path):
    """A file that names three classes."""
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    return str(tmp_path / "names.txt")


@pytest.mark.parametrize(
    "kind", [TEXTS, pa.large_string(), pa.string_view()], ids=["texts", "large", "views"]
)
def test_names_are_read_like_their_numbers(tmp_path, abc, kind):
    numbers, texts = tmp_path / "numbers", tmp_path / "texts"
    described = describe(put(numbers, table(LISTS), rows=3), class_names=abc)
    manifest = describe(put(texts, table(NAMED, kind), rows=3))
    found = records(texts)
    assert [np.flatnonzero([*one.more[MULTI_HOT]]).tolist() for one in found] == [
        [0, 2], [1], [], [2]
    ]  # fmt: skip
    assert found == records(numbers)
    assert manifest.classes == described.classes == ("a", "b", "c")
    for one, folder in ((described, numbers), (manifest, texts)):
        check_trainable(one, None, "set", MULTILABEL)
        verify(folder, VerifyOptions(deep=True, processes=1))
    assert [split.class_counts for split in manifest.splits.values()] == [(2, 1, 1)] * 2


def test_classes_are_those_of_all_files_or_in_the_order_that_is_given(tmp_path):
    put(tmp_path, table([["b"], ["ä b"]], TEXTS), table([[], ["a"]], TEXTS))
    assert describe(tmp_path, output=str(tmp_path / "found")).classes == ("a", "b", "ä b")
    (tmp_path / "names.txt").write_text("ä b\nnone\nb\na\n")
    given = describe(tmp_path, class_names=str(tmp_path / "names.txt"))
    assert given.classes == ("ä b", "none", "b", "a")
    assert [[*one.more[MULTI_HOT]] for one in records(tmp_path)] == [[0, 0, 1, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize(
    ("kind", "row", "said"),
    [
        (NUMBERS, [3], "row 1: has the class 3 in its list; classes are 0 to 2"),
        (NUMBERS, [-1], "row 1: has the class -1"),
        (NUMBERS, None, "row 1: has no list of classes; write an empty list"),
        (TEXTS, ["a", "d"], "row 1: has 'd' in its list, which is not the name of a class"),
        (TEXTS, ["a", ""], "row 1: has '' in its list, which is not the name of a class"),
        (TEXTS, [None], "row 1: has None in its list, which is not the name of a class"),
        (TEXTS, None, "row 1: has no list of classes; write an empty list"),
    ],
)
def test_a_list_that_cannot_be_used_is_named(tmp_path, abc, kind, row, said):
    first = [0] if kind == NUMBERS else ["a"]
    put(tmp_path, table([first], kind), table([first, row], kind))
    with pytest.raises(DataError, match=rf"validation.parquet, row group 0, {said}"):
        describe(tmp_path, class_names=abc)


@pytest.mark.parametrize(
    ("row", "said"), [(["b", " "], "' '"), ([None], "None"), (None, "no list")]
)
def test_no_class_is_made_of_an_empty_text_or_a_null(tmp_path, row, said):
    put(tmp_path, table([["a"], row], TEXTS))
    with pytest.raises(DataError, match=rf"train.parquet, row group 0, row 1: has {said}"):
        describe(tmp_path)


def test_texts_that_are_no_classes_are_refused(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="the column 'labels' has only empty lists"):
        describe(put(tmp_path / "empty", table([[], []], TEXTS)))
    monkeypatch.setattr(parquet_describe, "MAX_CLASSES", 3)
    captions = table([["a man"], ["a dog", "a cat"], ["a bird"]], TEXTS, "captions")
    with pytest.raises(DataError, match=r"'captions' has more than 3 different texts, too many"):
        describe(put(tmp_path / "captions", captions), label_column="captions")
    mixed = put(tmp_path / "mixed", table([["a"]], TEXTS), table([[0]]))
    with pytest.raises(DataError, match=r"validation.parquet: has other columns than .*train"):
        describe(mixed)
    with pytest.raises(ConfigError, match="--target-form: must be one of names"):
        describe(put(tmp_path / "form", table([["a"]], TEXTS)), target_form="numbers")


def test_a_changed_name_is_noticed(tmp_path, capsys):
    describe(put(tmp_path, table(NAMED, TEXTS)))
    changed = [["a", "b"], *NAMED[1:]]
    write_file(tmp_path / "train.parquet", table(changed, TEXTS))
    with pytest.raises(DataError):
        verify(tmp_path, VerifyOptions(processes=1))
    out = capsys.readouterr().out
    assert "train.parquet, row group 0: its images and labels do not match" in out


def test_a_list_is_of_labels_only_if_no_other_column_is(tmp_path):
    def chosen(label=None, column="labels", more=None, kind=NUMBERS):
        lists = LISTS if kind == NUMBERS else NAMED
        path = write_file(tmp_path / "one.parquet", table(lists, kind, column, more))
        return find_columns(read_layout(str(path)), None, label)

    label = {"label": (pa.int64(), [0, 1, 0, 1])}
    tags = {"tags": (pa.list_(TEXTS), NAMED)}
    assert chosen().target == MULTI_HOT
    assert chosen(column="corner", more=label).label == "label"
    assert chosen(more=label).label == "label"
    assert chosen("labels", more=label).target == MULTI_HOT
    # As before, the only integers, which nothing calls labels.
    assert chosen(column="corner").label == "image_id"
    with pytest.raises(UnfitFileError, match="has no column 'x'"):
        chosen("x")
    # Texts may be captions, so only their name or the user says that they are labels.
    assert chosen(kind=TEXTS).form == "names"
    assert chosen(more=tags).form == "numbers"
    assert chosen("tags", more=tags).form == "names"
    assert chosen(column="captions", kind=TEXTS).label == "image_id"


@pytest.mark.long
def test_a_run_on_names_ends_with_the_bits_of_one_on_their_numbers(tmp_path, abc):
    """By two ranks, on 40 images of which some have no class and some have all."""
    lists = [[n for n in range(3) if number >> n & 1] for number in range(40)]
    named = [["abc"[n] for n in row] for row in lists]
    describe(put(tmp_path / "numbers", table(lists), table(lists[:9]), 10), class_names=abc)
    describe(put(tmp_path / "names", table(named, TEXTS), table(named[:9], TEXTS), 10))
    for name in ("numbers", "names"):
        done = fork_trainer(
            *("train", "--preset", "tiles", *TINY, "--data.source", "tfrecords"),
            *("--data.dir", name, "--name", f"rows-{name}", "--batch-size", "4"),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    runs = tmp_path / "runs"
    assert final_state(runs / "rows-names") == final_state(runs / "rows-numbers")


def test_the_suggested_run_of_lists_is_for_several_labels(tmp_path, abc):
    manifest = describe(put(tmp_path, table(LISTS)), class_names=abc)
    assert task_of(manifest, tmp_path) == MULTILABEL
