"""Which image of a folder COCO's JSON means by a path."""

import json

import pytest

from tests.trainer.support.data_sets.image_folders import by_name, picture, reasons
from trainer.cli import main
from trainer.extras.detection.data.folder import Folder


def folder(root, *names):
    for name in names:
        path = root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return Folder(root / "in")


def paths(files):
    return [file.path for file in files]


@pytest.mark.parametrize(
    ("names", "named", "expected"),
    [
        (["cam2/0.png"], "cam1/0.png", []),
        (["cam2/0.png"], "set/cam1/0.png", []),
        (["cam2/b/0.png"], "cam1/b/0.png", []),
        (["train/0.png", "val/1.png"], "val/0.png", []),
        (["train2017/0.png"], "val2017/0.png", []),
        (["images/1.png", "0.png"], "images/0.png", []),
        (["images/0.png", "train/1.png"], "train/0.png", []),
        # The path has folders in front that INPUT lacks, or that it calls by a usual name.
        (["0.png"], "cam1/0.png", ["0.png"]),
        (["cam1/0.png", "cam2/0.png"], "set/cam1/0.png", ["cam1/0.png"]),
        (["images/0.png"], "../../label-studio/upload/1/0.png", ["images/0.png"]),
        (["images/default/0.png"], "frames/0.png", ["images/default/0.png"]),
        (["images/0.png"], "train2017/0.png", ["images/0.png"]),
        (["images/train/0.png", "images/val/0.png"], "C:\\x\\train\\0.png", ["images/train/0.png"]),
        (["images/train/0.png"], "images/0.png", ["images/train/0.png"]),
        (["a/0.png", "b/0.png"], "0.png", ["a/0.png", "b/0.png"]),
    ],
)
def test_boxes_go_to_no_image_of_another_folder(tmp_path, names, named, expected):
    assert paths(folder(tmp_path, *names).image_of(named, None, "")) == expected


def test_an_absolute_path_below_the_folder_is_that_path(tmp_path):
    files = folder(tmp_path, "a/0.png", "b/0.png", f"{tmp_path.name}/1.png")
    assert paths(files.image_of(f"{tmp_path}/in/b/0.png", None, "")) == ["b/0.png"]


@pytest.mark.parametrize(
    ("beside", "split", "expected"),
    [
        ("task1/annotations", "", ["task1/images/train/0.png", "task1/images/val/0.png"]),
        ("task1/annotations", "train", ["task1/images/train/0.png"]),
        ("task2/annotations", "train", ["task2/images/train/0.png"]),
        ("task2/deep/annotations", "", ["task2/images/train/0.png"]),
        ("other", "train", ["task1/images/train/0.png", "task2/images/train/0.png"]),
        ("", "train", ["task1/images/train/0.png", "task2/images/train/0.png"]),
    ],
)
def test_of_several_images_the_one_nearest_to_the_annotations_is_meant(
    tmp_path, beside, split, expected
):
    names = [f"{name}/0.png" for name in ("task1/images/train", "task1/images/val",
                                          "task2/images/train")]  # fmt: skip
    assert paths(folder(tmp_path, *names).image_of("0.png", beside, split)) == expected


def coco(*names):
    return {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "annotations": [
            {"image_id": n, "category_id": 1, "bbox": [1, 1, 4, 4]} for n in range(len(names))
        ],
        "categories": [{"id": 1, "name": "fox"}],
    }


def test_a_missing_image_is_told_from_one_of_several(tmp_path):
    for number, name in enumerate(("cam2/0.png", "cam2/1.png", "x/2.png", "y/2.png", "y/3.png")):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    named = ["cam1/0.png", "cam2/0.png", "cam2/1.png", "2.png", "y/3.png"]
    (tmp_path / "in/a.json").write_text(json.dumps(coco(*named)))
    output = ["--output", str(tmp_path / "out"), "--processes", "1", "--max-rejected", "2"]
    assert main(["prepare", "detection", "--input", str(tmp_path / "in"), *output]) == 0
    assert reasons(tmp_path / "out") == {
        "cam1/0.png": "is named in a.json, but there is no such image in the folder",
        "2.png": "is named in a.json, but several files have this name (such as x/2.png and"
        " y/2.png); write the folder in front of it",
    }
    assert sorted(by_name(tmp_path / "out")) == ["cam2/0.png", "cam2/1.png", "y/3.png"]
