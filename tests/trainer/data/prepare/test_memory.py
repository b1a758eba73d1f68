"""What a preparation holds in memory before it reads an image does not grow with the images."""

import json
import tracemalloc

import pytest

from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.input_files import in_folder
from trainer.data.prepare.listing import Listing
from trainer.data.tables import reader
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.prepare import table_inputs
from trainer.extras.detection.data import coco, coco_json, yolo
from trainer.extras.detection.data.folder import Folder
from trainer.extras.detection.data.options import PrepareDetectionOptions
from trainer.extras.detection.data.prepare import listed
from trainer.extras.multilabel.options import PrepareMultilabelOptions
from trainer.extras.multilabel.prepare import of_folders, of_table
from trainer.extras.segmentation.mask_files import MaskFolder
from trainer.extras.segmentation.prepare import paired_inputs

FEW, MANY = 500, 2000
MOST_BYTES = 250
"""Most bytes of Python's memory for each further image. Python keeps up to 2,000 tuples of a size
for reuse, however many images there are; whatever holds names has more."""


def names(count):
    return [f"{n % 20}/an_image_of_a_usual_name_{n:07}.jpg" for n in range(count)]


def write(root, count):
    for name in names(count):
        path = root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Few have the same size, because all of these are compared at once.
        number = int(path.stem[-7:])
        path.write_text(f"{number}{' ' * (number % 499)}")


def folder(root, count):
    return lambda: folder_inputs(root / "in")


def table(root, count):
    lines = [f"{name},{'ab'[n % 2]},P{n // 5:05},{n % 90}" for n, name in enumerate(names(count))]
    (root / "t.csv").write_text("\n".join(["file,class,patient,age", *lines]))
    options = PrepareTableOptions(input=str(root / "in"), table=str(root / "t.csv"))
    return lambda: table_inputs(root / "in", options)


def several_labels(root, count):
    lines = [f"{name},{('a', 'b', 'a|b')[n % 3]}" for n, name in enumerate(names(count))]
    (root / "t.csv").write_text("\n".join(["file,labels", *lines]))
    return lambda: of_table(root / "in", PrepareMultilabelOptions(table=str(root / "t.csv")))


def several_folders(root, count):
    return lambda: of_folders(root / "in")


def masks(root, count):
    for name in names(count):
        path = (root / "masks" / name).with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = MaskFolder(root / "masks", 2, "reject", {})
    return lambda: paired_inputs(root / "in", found, ("a", "b"))


def boxes(annotations, root):
    files = Folder(root / "in")
    return listed(annotations(files), PrepareDetectionOptions(), files.images_count)


def boxes_of_yolo(root, count):
    for name in names(count):
        (root / "in" / name).with_suffix(".txt").touch()
    (root / "in/classes.txt").write_text("a\nb\n")
    return lambda: boxes(lambda files: yolo.read(files, ()), root)


def boxes_of_coco(root, count):
    content = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names(count))],
        "annotations": [
            {"image_id": n, "category_id": 1, "bbox": [1, 2, 3, 4]} for n in range(count)
        ],
        "categories": [{"id": 1, "name": "a"}],
    }
    (root / "a.json").write_text(json.dumps(content))
    return lambda: boxes(lambda files: coco.read([root / "a.json"], files), root)


def peak(root, form, count):
    """Bytes that Python holds at most while the images are found and listed."""
    write(root, count)
    inputs_of = form(root, count)
    tracemalloc.start()
    try:
        listing, inputs = Listing(root / "listing.sqlite"), inputs_of()
        listing.fill(inputs, 0, 0.1, group=inputs.group)
        assert sum(size.files for size in listing.split_sizes().values()) == count
        listing.close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


FORMS = [folder, table, several_labels, several_folders, masks, boxes_of_yolo, boxes_of_coco]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_further_images_need_no_memory(tmp_path, monkeypatch, form):
    # Parts of files that are read at once, which are larger than these files.
    monkeypatch.setattr(coco_json, "_PART", 4096)
    monkeypatch.setattr(reader, "_CHUNK", 4096)
    few = peak(tmp_path / "few", form, FEW)
    # Again if need be: Python's table of interned names grows once, by megabytes.
    many = (peak(tmp_path / f"many-{turn}", form, MANY) for turn in range(2))
    assert any((most - few) / (MANY - FEW) < MOST_BYTES for most in many)


def test_a_folder_of_very_many_files_is_listed_without_sorting_them(tmp_path, monkeypatch):
    write(tmp_path, 100)
    ordered = [file.path for file in in_folder(tmp_path / "in", tmp_path / "in")]
    monkeypatch.setattr("trainer.data.prepare.input_files._SORTED", 3)
    unordered = [file.path for file in in_folder(tmp_path / "in", tmp_path / "in")]
    assert sorted(unordered) == sorted(ordered)
