"""Values of COCO's JSON are read exactly, or an error names them. A file of any size is read."""

import json
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.errors import DataError
from trainer.extras.detection.data import coco_json
from trainer.extras.detection.data.coco_json import entries

NEEDED = {"images": ("id",), "annotations": ("bbox",)}
COUNT = 6


def folder(root):
    for number in range(COUNT):
        path = root / f"in/{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, [60, 80, 3], np.uint8)
        Image.fromarray(noise).save(path)
    return {
        "images": [
            {"id": n, "file_name": f"{n}.jpg", "width": 80, "height": 60} for n in range(COUNT)
        ],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": [1, 2, 30, 20], "iscrowd": 0}
            for n in range(COUNT)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }


def prepare(root, text):
    (root / "in/a.json").write_text(text if isinstance(text, str) else json.dumps(text))
    output = ["--output", str(root / "out"), "--processes", "1", "--max-rejected", "50%"]
    return main(["prepare", "detection", "--input", str(root / "in"), *output])


@pytest.mark.parametrize(
    ("list_", "key", "value", "says"),
    [
        ("annotations", "bbox", [10**400, 1, 2, 3], "its bbox must be four numbers"),
        ("annotations", "bbox", [[1], 1, 2, 3], "its bbox must be four numbers"),
        ("annotations", "bbox", "12345", "its bbox must be four numbers"),
        ("annotations", "area", [1], "and its area a number, not"),
        ("annotations", "category_id", float("inf"), "category_id must be a whole number, not inf"),
        ("annotations", "category_id", float("nan"), "category_id must be a whole number, not nan"),
        ("annotations", "category_id", 1.7, "category_id must be a whole number, not 1.7"),
        ("annotations", "category_id", [1], "category_id must be a whole number, not [1]"),
        ("annotations", "category_id", None, "category_id must be a whole number, not None"),
        ("annotations", "category_id", "LARGE", "cannot be read as JSON (Exceeds the limit"),
        ("annotations", "category_id", 9, "its category_id 9 is not among its categories"),
        ("annotations", "image_id", [1], "image_id must be a number or a text, not [1]"),
        ("annotations", "image_id", {}, "image_id must be a number or a text, not {}"),
        ("annotations", "image_id", True, "image_id must be a number or a text, not True"),
        ("annotations", "image_id", 77, "1 image_id of annotations, such as 77"),
        ("annotations", "iscrowd", "maybe", "iscrowd must be a whole number, not 'maybe'"),
        ("annotations", "iscrowd", 2, "iscrowd must be 0 or 1, not 2"),
        ("images", "id", [1], "id must be a number or a text, not [1]"),
        ("images", "id", None, "id must be a number or a text, not None"),
        ("images", "id", 1, "two of its images have the same id"),
        ("images", "width", 80.9, "width must be a whole number, not 80.9"),
        ("images", "height", "tall", "height must be a whole number, not 'tall'"),
        ("images", "file_name", "1.jpg", "1.jpg: has annotations twice, the second time in"),
        ("categories", "id", "one", "id must be a whole number, not 'one'"),
        ("categories", "id", 2, "two of its categories have the same id"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(tmp_path, capsys, list_, key, value, says):
    content = folder(tmp_path)
    content[list_][0][key] = value
    text = json.dumps(content).replace('"LARGE"', "1" + "0" * 5000)
    assert prepare(tmp_path, text) == 3
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert says in said


@pytest.mark.parametrize("value", [0, False, "0", None, 0.0])
def test_what_is_no_crowd_counts(tmp_path, capsys, value):
    """bool("0") is true: such an object neither counted nor taught."""
    content = folder(tmp_path)
    for box in content["annotations"]:
        box["iscrowd"] = value
    assert prepare(tmp_path, content) == 0
    assert "crowd region" not in capsys.readouterr().out


@pytest.mark.parametrize("value", [1, True, "1", 1.0])
def test_what_is_a_crowd_does_not(tmp_path, capsys, value):
    content = folder(tmp_path)
    content["annotations"][0]["iscrowd"] = value
    assert prepare(tmp_path, content) == 0
    assert "1 crowd region" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["5", 5.0, 5])
def test_numbers_of_images_may_be_texts(tmp_path, number):
    content = folder(tmp_path)
    content["annotations"][5]["image_id"] = number
    content["images"][4]["id"] = content["annotations"][4]["image_id"] = "four"
    assert prepare(tmp_path, content) == 0
    assert sum(split.examples for split in load_manifest(tmp_path / "out").splits.values()) == COUNT


@pytest.mark.parametrize("box", [{}, {"bbox": None}, {"bbox": []}])
def test_an_annotation_without_a_box_says_that_an_image_has_none(tmp_path, capsys, box):
    """As COCO Camera Traps marks empty images."""
    content = folder(tmp_path)
    for annotation in content["annotations"][3:]:
        del annotation["bbox"]
        annotation.update({"category_id": 0, "segmentation": [], **box})
    content["categories"].insert(0, {"id": 0, "name": "empty"})
    assert prepare(tmp_path, content) == 0
    said = capsys.readouterr().out
    assert "3 annotations without a box: taken as no object" in said
    assert "2 classes without any box: empty, dog" in said
    assert sum(split.examples for split in load_manifest(tmp_path / "out").splits.values()) == COUNT


@pytest.mark.parametrize("outline", [[[1, 2, 30, 2, 30, 20]], {"counts": "abc", "size": [60, 80]}])
def test_an_outline_without_a_box_is_refused(tmp_path, capsys, outline):
    content = folder(tmp_path)
    content["annotations"][2].update({"bbox": [], "segmentation": outline})
    assert prepare(tmp_path, content) == 3
    assert "annotation 2: has an outline, but no bbox; write" in capsys.readouterr().err


@pytest.mark.parametrize("largest", [0.5, 1, 1.0000001])
def test_boxes_that_are_fractions_are_refused(tmp_path, capsys, largest):
    content = folder(tmp_path)
    for annotation in content["annotations"]:
        annotation["bbox"] = [0.1, 0, 0.25, largest]
    assert prepare(tmp_path, content) == 3
    said = capsys.readouterr().err
    assert "every box lies between 0 and 1, as a fraction of its image, but COCO's are in" in said
    assert "multiply left and width by the width of the image" in said
    # One that does not is enough: they are small objects.
    content["annotations"][0]["bbox"] = [0, 0, 1, 2]
    assert prepare(tmp_path, content) == 0


def test_a_box_without_an_area_in_32_bits_is_rejected(tmp_path):
    content = folder(tmp_path)
    content["annotations"][2]["bbox"] = [40, 30, 1e-9, 1e-9]
    assert prepare(tmp_path, content) == 0
    reasons = (tmp_path / "out/rejected.csv").read_text()
    assert "has the box of annotation 2 (40, 30, 40, 30), which has no area" in reasons


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "too many nested lists"),
        ('{"images": ' + "[" * 100_000, "too many nested lists"),
        ('{"x": ' + '{"a":' * 100_000, "too many nested lists"),
        ("", "Expecting value"),
        ("[]", "is not COCO's JSON"),
        ("3", "is not COCO's JSON"),
        ("{", "Expecting a key"),
        ('{"images": [', "Expecting value"),
        ('{"images": [{"id": 1}', "Expecting one of ',]'"),
        ('{"images": [{"id": 1}]', "Expecting one of ',}'"),
        ('{"images": [{"id": 1},]', "Expecting value"),
        ('{"images": {}}', "has no list of images"),
        ('{"images": [1]}', "entry 0 of its images has no id"),
        ('{"images": [], "annotations": []} x', "Extra data"),
        ('{"images": []}', "has no list of annotations"),
        ('{"images": [], "images": []}', "has two lists of images"),
        ('{"images": [{"id": "\x01"}]}', "Invalid control character"),
    ],
)
def test_a_text_that_is_no_coco_is_refused(tmp_path, text, says):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        list(entries(path, NEEDED))
    assert says in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("part", [1, 2, 3, 7, 1 << 20])
def test_parts_of_any_size_give_the_same(tmp_path, monkeypatch, encoding, part):
    content = {
        "info": {"a": [1, {"b": None}], "ü": '\\"'},
        "images": [{"id": 12345, "file_name": "ä.jpg"}, {"id": -1.5e3}],
        "n": 1234567,
        "annotations": [{"bbox": [1, 2.5, 1e-9, 3], "segmentation": [[1, 2]]}],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding=encoding)
    monkeypatch.setattr(coco_json, "_PART", part)
    assert list(entries(path, NEEDED)) == [
        ("images", 0, {"id": 12345, "file_name": "ä.jpg"}),
        ("images", 1, {"id": -1500.0}),
        ("annotations", 0, {"bbox": [1, 2.5, 1e-9, 3]}),
    ]


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(count):
        path = tmp_path / f"{count}.json"
        with path.open("w") as file:
            file.write('{"images": [')
            file.write(",".join(f'{{"id": {n}, "note": "{"x" * 200}"}}' for n in range(count)))
            file.write('], "annotations": []}')
        tracemalloc.start()
        assert sum(1 for _ in entries(path, NEEDED)) == count
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(80_000) < 1.3 * peak(20_000) < 40_000_000
