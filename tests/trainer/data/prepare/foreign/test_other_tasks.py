"""What other tools write for other tasks than one class an image: one rule for each form.

With a class as well, it is taken over and entries that are not read are counted; without one, it is
refused with the command that reads such data.
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.image_folders import picture
from tests.trainer.support.data_sets.imagenet_files import tar
from trainer.cli import main
from trainer.data.manifest import load_manifest

COUNT = 10


def mask():
    return saved(Image.new("L", (16, 16), 1), "PNG")


def archive(root, of_sample):
    files = {}
    for number in range(COUNT):
        files[f"{number:03}.jpg"] = picture(number, 16)
        for suffix, content in of_sample(number).items():
            files[f"{number:03}.{suffix}"] = content
    (root / "in.tar").write_bytes(tar(files))
    return ["webdataset", "--input", str(root / "in.tar"), "--output", str(root / "out")]


def fields(number, **more):
    return {"json": json.dumps({"label": number % 2, **more}).encode()}


BOXED = {"bbox": [[1, 2, 3, 4]]}
WEBDATASET = {
    "one class": (fields, ""),
    "boxes": (lambda n: {"json": json.dumps(BOXED).encode()}, "`prepare detection`"),
    "a class and boxes": (lambda n: fields(n, **BOXED), "10 images with boxes besides a class"),
    "mask": (lambda n: {"seg.png": mask()}, "`prepare segmentation`"),
    "a class and a mask": (
        lambda n: fields(n) | {"seg.png": mask()}, "10 images with a mask besides a class"
    ),
    "several labels": (lambda n: fields(n) | fields(n, label=[0, 1]), "`prepare multilabel`"),
}  # fmt: skip


def integers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def texts(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def shards(root, of_record):
    (root / "in").mkdir()
    for split, count in (("train", COUNT - 2), ("validation", 2)):
        with tf.io.TFRecordWriter(str(root / f"in/{split}-00000-of-00001")) as writer:
            for number in range(count):
                encoded = {"image/encoded": texts(picture(number, 16))}
                features = tf.train.Features(feature=encoded | of_record(number))
                writer.write(tf.train.Example(features=features).SerializeToString())
    return ["tfrecords", "--input", str(root / "in")]


def of_class(number):
    return {"image/class/label": integers(number % 2)}


def of_boxes(number):
    corners = {f"image/object/bbox/{side}": floats(0.5) for side in ("xmin", "ymin")}
    return corners | {"image/object/class/label": integers(1)}


def of_mask(number):
    return {"image/segmentation/class/encoded": texts(mask())}


TFRECORDS = {
    "one class": (of_class, ""),
    "a class and no boxes": (lambda n: of_class(n) | {"image/object/bbox/xmin": floats()}, ""),
    "boxes": (of_boxes, "`prepare detection`"),
    "a class and boxes": (
        lambda n: of_class(n) | of_boxes(n), "10 images are of another task as well"
    ),
    "mask": (of_mask, "`prepare segmentation`"),
    "a class and a mask": (
        lambda n: of_class(n) | of_mask(n), "10 images are of another task as well"
    ),
    "several labels": (
        lambda n: {"image/class/label": integers(0, 1)}, "`prepare multilabel`"
    ),
}  # fmt: skip


def parquet(root, columns):
    (root / "in").mkdir()
    for split, count in (("train", COUNT - 2), ("validation", 2)):
        rows = {"image": [{"bytes": picture(number, 16)} for number in range(count)]}
        rows |= {name: [of_row(n) for n in range(count)] for name, of_row in columns.items()}
        pq.write_table(pa.table(rows), root / f"in/{split}-00000-of-00001.parquet")
    return ["parquet", "--input", str(root / "in")]


ONE = {"label": lambda n: n % 2}
MASKED = {"annotation": lambda n: {"bytes": mask()}}
LISTS = {"labels": lambda n: ["a", "b"][: 1 + n % 2]}
OBJECTS = {"objects": lambda n: {"bbox": [[1, 2, 3, 4]], "category": [0]}}
PARQUET = {
    "one class": (ONE, ""),
    "boxes": (OBJECTS, ""),
    "a class and boxes": (ONE | OBJECTS, ""),
    "a class, chosen, and boxes": (
        ONE | OBJECTS, "'objects' is not read: boxes, write them as COCO"
    ),
    "mask": (MASKED, "`prepare segmentation`"),
    "a mask called label": ({"label": MASKED["annotation"]}, "`prepare segmentation`"),
    "a class and a mask": (ONE | MASKED, "'annotation' is not read: a mask, write images and"),
    "several labels": (LISTS, ""),
    "several labels and a mask": (
        LISTS | MASKED, "'annotation' is not read: a mask, write images and"
    ),
}  # fmt: skip

CASES = [
    *((archive, case, *row) for case, row in WEBDATASET.items()),
    *((shards, case, *row) for case, row in TFRECORDS.items()),
    *((parquet, case, *row) for case, row in PARQUET.items()),
]


@pytest.mark.parametrize(
    ("form", "case", "content", "said"), CASES, ids=[f"{f.__name__}: {c}" for f, c, *_ in CASES]
)
def test_data_of_another_task(tmp_path, capsys, form, case, content, said):
    command = form(tmp_path, content)
    if case == "a class, chosen, and boxes":
        command += ["--label-column", "label"]
    elif form is parquet and "objects" in content:
        (tmp_path / "names.txt").write_text("white\nblack\n")
        command += ["--class-names", str(tmp_path / "names.txt")]
    status = main(["prepare", *command, "--processes", "1"])
    assert status == (3 if said.startswith("`") else 0)
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert said in text
    if status == 0:
        folder = tmp_path / ("out" if form is archive else "in")
        assert len(load_manifest(folder).classes) == 2
        noted = ("besides a class", "another task", "is not read")
        assert any(words in text for words in noted) == bool(said)
