"""Parquet files with boxes, as Hugging Face publishes data sets, are trained on where they are."""

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.support.data_sets import parquet_files
from tests.trainer.support.data_sets.parquet_files import IMAGE, describe, write_file
from trainer.data.formats.record_format import BrokenBlockError
from trainer.data.manifest import check_trainable
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.detection.boxes import unpack
from trainer.extras.detection.leaf import BOXES, DETECTION
from trainer.fitting.suggestion import print_suggestion
from trainer.leaves import TASKS
from trainer.presets import parse_train

NAMES = ["cat", "dog"]
LISTS = pa.struct({
    "id": pa.list_(pa.int64()), "area": pa.list_(pa.int64()),
    "bbox": pa.list_(pa.list_(pa.float32(), 4)), "category": pa.list_(pa.int64())})  # fmt: skip
"""Objects as `datasets` writes a Sequence of a dict: cppe-5 and others."""
STRUCTS = pa.list_(pa.struct({"bbox": pa.list_(pa.float64()), "category": pa.int64()}))
"""Objects as `datasets` 4 writes a List of dicts."""
OLD = {"feature": {"category": {"names": NAMES, "_type": "ClassLabel"}}, "_type": "Sequence"}
NEW = {"category": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "List"}}


def picture(seed, size=(80, 60), **options):
    return parquet_files.stored(seed, size, "JPEG", **options)


def table(objects, kind=LISTS, named=OLD, images=None):
    features = {"image": {"_type": "Image"}, "objects": named, "image_id": {"dtype": "int64"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    schema = pa.schema({"image_id": pa.int64(), "image": IMAGE, "width": pa.int32(),
                        "height": pa.int32(), "objects": kind}, metadata=metadata)  # fmt: skip
    count = len(objects)
    rows = [range(count), images or [*map(picture, range(count))], [80] * count, [60] * count]
    return pa.table([[*values] for values in [*rows, objects]], schema=schema)


def lists(*boxes):
    """Objects of one row, of (bbox, category) each."""
    corners, labels = [box for box, _ in boxes], [label for _, label in boxes]
    count = len(boxes)
    return {"id": [*range(count)], "area": [50] * count, "bbox": corners, "category": labels}


ONE, TWO = ([10, 20, 30, 15], 1), ([0, 0, 80, 60], 0)
GOOD = [lists(ONE), lists(ONE, TWO), lists()]


def put(folder, train, validation=None, **options):
    write_file(folder / "train.parquet", train, **options)
    write_file(folder / "validation.parquet", validation or table(GOOD))
    return folder


def stored(folder, split="train"):
    """Labels and rows of boxes in pixels with the class, of each record in the order of files."""
    found = []
    for record in parquet_files.records(folder, split):
        size, rows = unpack(record.more[BOXES])
        pixels = rows[:, :5] * [*size, *size, 1]
        found.append((record.label, np.round(pixels, 3).tolist()))
    return found


EXPECTED = [
    (1, [[10, 20, 40, 35, 1]]),
    (0, [[10, 20, 40, 35, 1], [0, 0, 80, 60, 0]]),
    (0, []),
]


STRUCTURED = [
    [
        {"bbox": box, "category": label}
        for box, label in zip(one["bbox"], one["category"], strict=True)
    ]
    for one in GOOD
]
CORNERS = [lists(([10, 20, 40, 35], 1)), lists(([10, 20, 40, 35], 1), TWO), lists()]


@pytest.mark.parametrize(
    ("train", "options"),
    [
        (table(GOOD), {}),
        (table(STRUCTURED, STRUCTS, NEW), {}),
        (table(CORNERS), {"target_form": "corners"}),
    ],
    ids=["lists", "structs", "corners"],
)
def test_boxes_are_read_as_they_are_published(tmp_path, train, options):
    manifest = describe(put(tmp_path, train, train, rows=2), **options)
    assert manifest.classes == ("cat", "dog")
    assert stored(tmp_path) == EXPECTED
    verify(tmp_path, VerifyOptions(deep=True, processes=1))
    check_trainable(manifest, None, "set", DETECTION)
    with pytest.raises(DataError, match="hold labels, and no other target"):
        check_trainable(manifest, None, "set", TASKS["segmentation"])


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (lists(([70, 20, 30, 15], 1)), r"row 1: has box 0 .* reaches 20 pixels out of the image"),
        (lists(ONE, ([5, 5, 0, 9], 0)), r"row 1: has box 1 .* has no area"),
        (lists(([5, 5, 9, 9], 2)), r"row 1: has box 0 .* of class 2; classes are 0 to 1"),
        (lists(([5, 5, 9, 9], None)), r"row 1: has box 0 without a category"),
        ({**lists(ONE, TWO), "category": [1]}, r"row 1: has objects that are not told apart"),
    ],
)
def test_a_box_that_does_not_fit_is_named_or_left_out(tmp_path, objects, said):
    put(tmp_path, table([lists(ONE), objects]))
    with pytest.raises(DataError, match=said):
        describe(tmp_path)
    if "told apart" not in said:
        describe(tmp_path, target_form="xywh-drop")
        assert stored(tmp_path)[0] == EXPECTED[0]


TEXTS = pa.struct({"bbox": pa.list_(pa.list_(pa.string())), "category": pa.list_(pa.string())})
FLOATS = pa.struct({"bbox": pa.list_(pa.list_(pa.float64())), "category": pa.list_(pa.float64()),
                    "area": pa.list_(pa.string())})  # fmt: skip
BOX = ["10", "20", "30", "15"]


@pytest.mark.parametrize(
    ("kind", "objects", "said"),
    [
        (TEXTS, {"bbox": [BOX], "category": ["cat"]}, "with the category 'cat', which is not a"),
        (TEXTS, {"bbox": [["x"] * 4], "category": ["1"]}, "with the bbox 'x', which is not a"),
        (FLOATS, {"bbox": [ONE[0]], "category": [1.7]}, r"the category 1\.7, which is not a w"),
        (FLOATS, {"bbox": [ONE[0]], "category": [np.nan]}, "with the category nan, which is not a"),
        (FLOATS, {"bbox": [ONE[0]], "category": [1.0], "area": ["x"]}, "with the area 'x', which"),
        (pa.struct({"bbox": pa.list_(pa.float64()), "category": pa.int64()}),
         {"bbox": ONE[0], "category": 1}, "a bbox or a category that is not a list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["xywh", "xywh-drop"])
def test_a_value_of_another_kind_is_named(tmp_path, capsys, kind, objects, said, form):
    put(tmp_path, table([objects], kind), table([objects], kind))
    with pytest.raises(DataError, match=f"row 0: has .*{said}"):
        describe(tmp_path, target_form=form)


def test_numbers_may_be_texts_and_floats(tmp_path):
    texts = {"bbox": [BOX], "category": ["1"]}
    describe(put(tmp_path, *[table([texts], TEXTS)] * 2))
    assert stored(tmp_path) == EXPECTED[:1]


@pytest.mark.parametrize("structs", [False, True])
@pytest.mark.parametrize("box", [[0.1, 0, 0.5, 0.25], [0, 0, 1, 1]])
def test_boxes_that_are_fractions_are_refused(tmp_path, structs, box):
    objects = [lists(), lists((box, 1), (box, 0))]
    kind, named = (LISTS, OLD)
    if structs:
        objects, kind, named = [[], [{"bbox": box, "category": 1}]], STRUCTS, NEW
    rows = table(objects, kind, named)
    with pytest.raises(DataError, match=r"every bbox .* lies between 0 and 1.*: multiply left"):
        describe(put(tmp_path, rows, rows))
    # One that does not is enough: they are small objects.
    describe(put(tmp_path, rows, table(STRUCTURED if structs else GOOD, kind, named)))


def test_an_image_that_its_exif_turns_is_named(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    put(tmp_path, table([lists(ONE)], images=[picture(1, exif=exif)]))
    with pytest.raises(DataError, match=r"row 0: is turned by its EXIF"):
        describe(tmp_path)


def test_a_changed_box_is_noticed(tmp_path):
    describe(put(tmp_path, table(GOOD)))
    moved = [lists(([11, 20, 30, 15], 1)), *GOOD[1:]]
    pq.write_table(table(moved), tmp_path / "train.parquet", row_group_size=100)
    with pytest.raises(BrokenBlockError, match="do not match their checksum"):
        stored(tmp_path)


def test_options_that_do_not_fit_are_refused(tmp_path):
    put(tmp_path, table(GOOD, named={}), table(GOOD, named={}))
    with pytest.raises(ConfigError, match="--class-names: is missing"):
        describe(tmp_path)
    put(tmp_path, table(GOOD))
    with pytest.raises(ConfigError, match="--target-form: must be one of xywh, corners"):
        describe(tmp_path, target_form="yolo")


def test_the_suggested_run_of_boxes_is_for_boxes_even_of_a_single_class(tmp_path, capsys):
    cats = [lists(([10, 20, 30, 15], 0))] * 3
    describe(put(tmp_path, table(cats), table(cats)))
    capsys.readouterr()
    print_suggestion(tmp_path)
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if "train --" in line)
    assert parse_train(shlex.split(line)[2:]).task == "detection"
    assert "nothing to learn" not in printed
