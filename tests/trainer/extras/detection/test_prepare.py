"""COCO's JSON and YOLO's text files become shards of images with checked boxes."""

import errno
import shlex
import shutil
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest

from common.errors import ConfigError
from tests.trainer.support.data_sets import image_files
from tests.trainer.support.data_sets.image_files import noise, write
from tests.trainer.support.data_sets.image_folders import every_record, reasons
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.detection.boxes import unpack
from trainer.extras.detection.data.options import PrepareDetectionOptions
from trainer.extras.detection.data.prepare import prepare_detection
from trainer.extras.detection.leaf import BOXES
from trainer.fitting.suggestion import print_suggestion
from trainer.presets import parse_train

WIDTH, HEIGHT = 80, 60
NAMES = ("cat", "dog")


def save(path, seed=0, **options):
    image_files.save(path, noise(seed, (WIDTH, HEIGHT)), **options)


def prepare(folder, **options):
    given = {"processes": 1, "max_rejected": "50%", **options}
    return prepare_detection(
        PrepareDetectionOptions(input=str(folder / "in"), output=str(folder / "out"), **given),
        "prepare detection",
    )


def records(folder):
    """By name of the image, its split, its label, and rows of boxes in pixels with the class."""
    found = {}
    for split, record in every_record(folder / "out"):
        size, rows = unpack(record.more[BOXES])
        rows = rows * [*size, *size, 1, 1, 1]
        found[record.filename] = (split, record.label, np.round(rows, 3).tolist())
    return found


def prepared(folder, **options):
    prepare(folder, **options)
    return records(folder)


def rejected(folder):
    return reasons(folder / "out")


def coco(images, boxes):
    return {
        "images": [
            {"id": 100 + number, "file_name": name, "width": WIDTH, "height": HEIGHT}
            for number, name in enumerate(images)
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}],
        "annotations": [
            {"id": 7 + number, "image_id": 100 + image, "category_id": category, "bbox": box,
             "segmentation": [[1, 2, 3]], **extra}
            for number, (image, category, box, extra) in enumerate(boxes)
        ],
    }  # fmt: skip


@pytest.fixture
def coco_folder(tmp_path):
    """As COCO is laid out: two folders of images, and a folder of annotations."""
    folder = tmp_path / "in"
    for number in range(6):
        save(folder / f"train2017/{number}.jpg", number)
    for number in range(2):
        save(folder / f"val2017/{number}.jpg", 10 + number)
    save(folder / "train2017/unknown.jpg", 20)
    boxes = [
        (0, 17, [10, 20, 30, 25], {"area": 333.0, "iscrowd": 0}),
        (0, 18, [0, 0, 80.4, 60], {"area": 500.0, "iscrowd": 1}),
        (1, 18, [5.5, 6.5, 10, 10], {}),
    ]
    write(folder / "annotations/instances_train2017.json", coco([f"{n}.jpg" for n in range(6)],
                                                                boxes))  # fmt: skip
    held_out = coco(["0.jpg", "1.jpg"], [(1, 17, [0, 0, 10, 10], {})])
    write(folder / "annotations/instances_val2017.json", held_out)
    write(folder / "annotations/captions_train2017.json", {"images": [], "annotations": []})
    return tmp_path


def test_coco_is_read_as_it_is_laid_out(coco_folder, capsys):
    manifest = prepare(coco_folder)
    assert manifest.classes == NAMES
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 6, "validation": 2,
    }  # fmt: skip
    found = records(coco_folder)
    assert found["train2017/0.jpg"] == (
        "train", 0, [[10, 20, 40, 45, 0, 0, 333], [0, 0, 80, 60, 1, 1, 500]],
    )  # fmt: skip
    assert found["train2017/1.jpg"] == ("train", 1, [[5.5, 6.5, 15.5, 16.5, 1, 0, 100]])
    assert found["train2017/5.jpg"] == ("train", 0, [])
    assert found["val2017/1.jpg"] == ("validation", 0, [[0, 0, 10, 10, 0, 0, 100]])
    said = capsys.readouterr().out
    assert "left out, because no annotations name them: 1 image\n" in said
    assert "1 crowd region" in said
    verify(coco_folder / "out", VerifyOptions(deep=True, processes=1))
    # The same again changes nothing, and the run that is suggested is of this task.
    assert prepare(coco_folder).version == manifest.version
    print_suggestion(coco_folder / "out")
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].strip())
    config = parse_train(command[2:])
    assert (config.task, config.model.network) == ("detection", "fcos-small")


@pytest.mark.parametrize(
    ("box", "extra", "reason"),
    [
        ([10, 10, 0, 5], {}, "the box of annotation 7 (10, 10, 10, 15), which has no area"),
        ([70, 10, 20, 5], {}, "reaches 10 pixels out of the image of 80 x 60"),
        ([-5, 10, 20, 5], {}, "reaches 5 pixels out"),
    ],
)
def test_a_box_that_does_not_fit_rejects_its_image_or_is_dropped(tmp_path, box, extra, reason):
    for number in range(4):
        save(tmp_path / f"in/{number}.jpg", number)
    boxes = [(0, 17, box, extra), (0, 18, [1, 1, 9, 9], {})]
    write(tmp_path / "in/a.json", coco([f"{n}.jpg" for n in range(4)], boxes))
    # An image that is held out is read as well.
    found = prepared(tmp_path, held_out=0.5)
    assert "0.jpg" not in found
    assert reason in rejected(tmp_path)["0.jpg"]
    assert "--unfit-boxes drop" in rejected(tmp_path)["0.jpg"]
    with pytest.raises(DataError, match="made from other files or options"):
        prepare(tmp_path, held_out=0.5, unfit_boxes="drop")
    (tmp_path / "out").rename(tmp_path / "first")
    found = prepared(tmp_path, held_out=0.5, unfit_boxes="drop")
    assert found["0.jpg"][2] == [[1, 1, 10, 10, 1, 0, 81]]


def test_files_of_coco_that_cannot_be_used_are_named(coco_folder):
    path = coco_folder / "in/annotations/instances_val2017.json"
    for content, problem in (
        ('{"images": [', "cannot be read as JSON"),
        ({**coco(["0.jpg"], []), "annotations": None}, "has no list of annotations"),
        ({**coco([], []), "categories": [{"id": 1, "name": "cow"}]}, "has other categories than"),
        (coco(["0.jpg"], [(0, 99, [0, 0, 1, 1], {})]), "annotation 7: its category_id 99 is not"),
        (coco(["0.jpg"], [(0, 17, [0, 0, 1], {})]), "annotation 7: its bbox must be four numbers"),
        (coco(["0.jpg"], [(5, 17, [0, 0, 1, 1], {})]), "1 image_id of annotations, such as 105"),
        ({**coco([], []), "images": [{"id": 1}]}, "entry 0 of its images has no file_name"),
        (
            {
                **coco([], []),
                "images": [{"id": 1, "file_name": "0.jpg"}, {"id": 1, "file_name": "1.jpg"}],
            },
            "two of its images have the same id",
        ),
        (
            {**coco([], []), "images": [{"id": 1, "file_name": "0.jpg", "width": "wide"}]},
            "image 0.jpg: its width must be a whole number, not 'wide'",
        ),
        (
            {**coco([], []), "categories": [{"id": "n01", "name": "cow"}]},
            "category cow: its id must be a whole number, not 'n01'",
        ),
        (
            coco(["0.jpg"], [(0, "cat", [0, 0, 1, 1], {})]),
            "annotation 7: its category_id must be a whole number, not 'cat'",
        ),
        (
            coco(["0.jpg"], [(0, 17, [0, 0, 1, 1], {"area": "large"})]),
            "annotation 7: .* its area a number, not .* and 'large'",
        ),
    ):
        write(path, content)
        with pytest.raises(DataError, match=problem) as error:
            prepare(coco_folder)
        assert str(path) in str(error.value)


def test_images_that_are_missing_or_of_another_size_are_rejected(coco_folder):
    content = coco(["0.jpg", "1.jpg", "gone.jpg"], [])
    content["images"][0]["width"], content["images"][0]["height"] = HEIGHT, WIDTH
    write(coco_folder / "in/annotations/instances_val2017.json", content)
    prepare(coco_folder)
    found = rejected(coco_folder)
    assert "is named in instances_val2017.json, but there is no such image" in found["gone.jpg"]
    assert "its boxes are for 60 x 80, as if it were not turned" in found["val2017/0.jpg"]


def test_an_annotation_is_named_by_all_digits_of_its_id(coco_folder):
    # As crowds of COCO 2017 are numbered.
    boxes = [(0, 17, [0, 0, 1, 0], {"id": 900100581904})]
    write(coco_folder / "in/annotations/instances_val2017.json", coco(["0.jpg", "1.jpg"], boxes))
    prepare(coco_folder)
    assert "the box of annotation 900100581904 (" in rejected(coco_folder)["val2017/0.jpg"]


def test_boxes_for_an_image_of_unknown_size_are_not_taken_for_those_of_a_shrunk_one(tmp_path):
    for number in range(4):
        save(tmp_path / f"in/{number}.jpg", number)
    content = coco([f"{n}.jpg" for n in range(4)], [(0, 17, [8, 6, 16, 12], {})])
    for image in content["images"]:
        del image["width"], image["height"]
    write(tmp_path / "in/a.json", content)
    found = prepared(tmp_path, held_out=0.5)
    assert found["0.jpg"][2] == [[8, 6, 24, 18, 0, 0, 192]]
    (tmp_path / "out").rename(tmp_path / "first")
    found = prepared(tmp_path, held_out=0.5, reencode="30")
    assert sorted(found) == ["1.jpg", "2.jpg", "3.jpg"]
    assert "boxes without the width and height of their image" in rejected(tmp_path)["0.jpg"]


@pytest.fixture
def yolo_folder(tmp_path):
    folder = tmp_path / "in"
    for number in range(4):
        save(folder / f"images/train/{number}.jpg", number)
        save(folder / f"images/val/{number}.png", number)
    write(folder / "data.yaml", "path: /elsewhere\ntrain: images/train\nval: images/val\n"
          "names:\n  0: cat\n  1: dog\n")  # fmt: skip
    write(folder / "labels/train/0.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.25 0.5 0.5\n\n")
    write(folder / "labels/train/1.txt", "0 0.1 0.1 0.9 0.1 0.5 0.8\n")
    write(folder / "labels/val/0.txt", "")
    return tmp_path


def test_yolo_is_read_with_boxes_and_outlines(yolo_folder, capsys):
    manifest = prepare(yolo_folder)
    assert manifest.classes == NAMES
    found = records(yolo_folder)
    assert found["images/train/0.jpg"] == (
        "train", 0, [[30, 15, 50, 45, 1, 0, 600], [0, 0, 40, 30, 0, 0, 1200]],
    )  # fmt: skip
    assert found["images/train/1.jpg"][2] == [[8, 6, 72, 48, 0, 0, 2688]]
    assert found["images/val/0.png"] == ("validation", 0, [])
    assert "5 images without a file of labels" in capsys.readouterr().out


def test_yolo_beside_the_images_with_names_of_classes_and_without_a_split(tmp_path):
    for number in range(6):
        save(tmp_path / f"in/set/{number}.jpg", number)
        write(tmp_path / f"in/set/{number}.txt", "1 0.5 0.5 1 1")
    with pytest.raises(DataError, match=r"write data.yaml with names, or name .*--classes"):
        prepare(tmp_path)
    with pytest.raises(DataError, match=r"of class 1; classes are 0 to 0"):
        prepare(tmp_path, classes=("cat",), max_rejected="0")
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "in/classes.txt", "cat\ndog\n")
    manifest = prepare(tmp_path, held_out=0.5)
    assert manifest.classes == NAMES
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 3, "validation": 3,
    }  # fmt: skip


def test_folders_of_a_data_yaml_are_found_in_either_unicode_form(tmp_path):
    for split in ("\u00e9t\u00e9", "hiver"):
        folder = tmp_path / "in" / normalize("NFD", split)
        save(folder / "0.jpg", len(split))
        write(folder / "0.txt", "0 0.5 0.5 0.2 0.2")
    write(tmp_path / "in/data.yaml", "train: hiver\nval: \u00e9t\u00e9\nnames: [cat]\n")
    named = {image: split for image, (split, *_) in prepared(tmp_path).items()}
    assert named == {"hiver/0.jpg": "train", normalize("NFD", "\u00e9t\u00e9/0.jpg"): "validation"}


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_the_points_of_a_pose_are_no_outline(yolo_folder, shape):
    points = "0.45 0.45 2 0.55 0.55 0" if shape[1] == 3 else "0.45 0.45 0.55 0.55"
    for name in ("train/0", "train/1"):
        write(yolo_folder / f"in/labels/{name}.txt", f"1 0.5 0.5 0.25 0.5 {points}\n")
    with (yolo_folder / "in/data.yaml").open("a") as file:
        file.write(f"kpt_shape: {list(shape)}\n")
    write(yolo_folder / "in/labels/train/2.txt", "1 0.5 0.5 0.25 0.5 0.45 0.45\n")
    images = prepared(yolo_folder)
    for name in ("train/0", "train/1"):
        assert images[f"images/{name}.jpg"][2] == [[30, 15, 50, 45, 1, 0, 600]]
    says = "7 numbers in line 1 of labels/train/2.txt; an object has its class, x, y, width and"
    assert says in rejected(yolo_folder)["images/train/2.jpg"]


def test_points_of_an_unknown_number_are_refused(yolo_folder):
    with (yolo_folder / "in/data.yaml").open("a") as file:
        file.write("kpt_shape: 17\n")
    with pytest.raises(DataError, match=r"data.yaml: its kpt_shape must be two numbers"):
        prepare(yolo_folder)


@pytest.mark.parametrize("names", ["\n  0: off\n  1: on\n", " [off, on]\n", " [no, 010]\n"])
def test_names_of_classes_are_texts_as_they_are_written(yolo_folder, names):
    path = yolo_folder / "in/data.yaml"
    path.write_text(path.read_text().partition("names:")[0] + f"names:{names}")
    expected = ("no", "010") if "no" in names else ("off", "on")
    assert prepare(yolo_folder).classes == expected


def test_suffixes_of_labels_may_be_in_upper_case(yolo_folder, capsys):
    labels = yolo_folder / "in/labels/train"
    (labels / "0.txt").rename(labels / "0.TXT")
    (yolo_folder / "in/data.yaml").rename(yolo_folder / "in/data.YAML")
    write(yolo_folder / "in/other/3.TXT", "0 0.5 0.5 0.25 0.5\n")
    images = prepared(yolo_folder)
    assert len(images["images/train/0.jpg"][2]) == 2
    assert "1 text file not read, such as other/3.TXT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cat 0.5 0.5 1 1", "labels that are not numbers in line 2 of labels/train/2.txt"),
        ("0 30 20 10 10", "not fractions of the image, 0 to 1, in line 2"),
        ("0 0.5 0.5 0.2", "4 numbers in line 2"),
        ("1.5 0.5 0.5 0.2 0.2", "a class that is not a whole number in line 2"),
        ("2 0.5 0.5 0.2 0.2", "line 2 of labels/train/2.txt (32, 24, 48, 36) of class 2"),
        ("0 0.5 0.5 0 0.2", "line 2 of labels/train/2.txt (40, 24, 40, 36), which has no area"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(yolo_folder, line, reason):
    write(yolo_folder / "in/labels/train/2.txt", f"0 0.5 0.5 0.1 0.1\n{line}\n")
    prepare(yolo_folder)
    assert reason in rejected(yolo_folder)["images/train/2.jpg"]


def test_labels_that_cannot_be_read_now_reject_no_image(yolo_folder, monkeypatch):
    read = Path.read_text

    def fail(path, *arguments, **options):
        if path.name == "1.txt":
            raise OSError(errno.EIO, "Input/output error")
        return read(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(DataError, match=r"labels/train/1.txt: .* run the same command again"):
        prepare(yolo_folder)
    monkeypatch.undo()
    assert "images/train/1.jpg" in prepared(yolo_folder)


def test_what_is_not_there_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="--input: no folder"):
        prepare(tmp_path)
    save(tmp_path / "in/images/a.jpg")
    with pytest.raises(DataError, match=r"images/a.jpg would have its labels in labels/a.txt"):
        prepare(tmp_path)
    with pytest.raises(ConfigError, match="--pages: boxes are of the first image of a file"):
        prepare(tmp_path, pages="all")
    with pytest.raises(ConfigError, match=r"--annotations: no file x.json"):
        prepare(tmp_path, annotations=("x.json",))
    assert not (tmp_path / "out").exists()


def test_a_data_set_of_a_single_class_is_written(tmp_path, capsys):
    for number in range(4):
        save(tmp_path / f"in/{number}.jpg", number)
        write(tmp_path / f"in/{number}.txt", "0 0.5 0.5 0.5 0.5")
    manifest = prepare(tmp_path, classes=("face",), held_out=0.5)
    assert manifest.classes == ("face",)
    print_suggestion(tmp_path / "out")
    said = capsys.readouterr().out
    assert "--preset shapes" in said
    assert "--data.source tfrecords" in said
