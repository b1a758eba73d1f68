"""The memory of a preparation before it reads an image does not grow with the images."""

import json
import pickle
import tracemalloc
from dataclasses import replace

import pytest

from trainer.data.intake.groups import read_groups, save_groups
from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.imagenet import imagenet_inputs
from trainer.data.prepare.input_files import ImageFile, in_folder
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.rejected import RejectedFile, Rejections
from trainer.data.tables import reader
from trainer.data.tables.leaks import Column, identifying, shared_folders, shared_values
from trainer.data.tables.options import PrepareTableOptions
from trainer.data.tables.prepare import table_inputs
from trainer.errors import DataError
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
LARGEST_TARGETS = 2000
"""Most bytes of a task's facts about the labels of all images."""


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


def groups(root, count):
    """Two files in each group."""
    return lambda: replace(
        folder_inputs(root / "in"), group=lambda file: f"{int(file.name[-11:-4]) // 2:09}"
    )


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
        # Each task carries it to another process.
        assert len(pickle.dumps(inputs.targets)) < LARGEST_TARGETS
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


FORMS = [
    folder,
    table,
    groups,
    several_labels,
    several_folders,
    masks,
    boxes_of_yolo,
    boxes_of_coco,
]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(
            form,
            id=form.__name__,
            marks=[] if form in {folder, boxes_of_coco} else pytest.mark.long,
        )
        for form in FORMS
    ],
)
def test_further_images_need_no_memory(tmp_path, monkeypatch, form):
    # Parts of files that are read at once, which are larger than these files.
    monkeypatch.setattr(coco_json, "_PART", 4096)
    monkeypatch.setattr(reader, "_CHUNK", 4096)
    few = peak(tmp_path / "few", form, FEW)
    # Again if need be: Python's table of interned names grows once, by megabytes.
    many = (peak(tmp_path / f"many-{turn}", form, MANY) for turn in range(2))
    assert any((most - few) / (MANY - FEW) < MOST_BYTES for most in many)


def bytes_per_file(use):
    """Bytes that Python holds at most for each further file that `use(count)` has to do with."""
    peaks = []
    for count in (FEW, FEW, MANY):
        tracemalloc.start()
        try:
            use(count)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return (peaks[2] - peaks[1]) / (MANY - FEW)


def rejected_files(count):
    for number, name in enumerate(names(count)):
        yield RejectedFile("train", name, f"is of kind {number} (at {number})", counted=number > 99)


def test_further_rejected_files_need_no_memory(tmp_path):
    def reject(count):
        rejections = Rejections(rejected_files(count), 1, WriteOptions(), "prepare folder")
        with pytest.raises(DataError, match="are not usable images"):
            rejections.check(tmp_path, finished=True)
        assert len((tmp_path / "rejected.csv").read_text().splitlines()) == count + 1
        assert rejections.has("train", names(count)[-1])
        assert not rejections.has("validation", names(count)[-1])

    assert bytes_per_file(reject) < MOST_BYTES


def test_further_held_out_groups_need_no_memory(tmp_path):
    def number(count):
        write(tmp_path / str(count), count)
        inputs = groups(tmp_path / str(count), count)()
        listing = Listing(tmp_path / str(count) / "listing.sqlite")
        listing.fill(inputs, 0, 0.5, group=inputs.group)
        tracemalloc.reset_peak()
        save_groups(tmp_path, listing.group_numbers(lambda *_: False))
        listing.close()
        listing.path.unlink()
        assert count // 5 < max(read_groups(tmp_path)["validation"]) < count // 3

    assert bytes_per_file(number) < MOST_BYTES


def test_further_wrong_rows_of_a_table_need_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "_CHUNK", 4096)
    (tmp_path / "a.jpg").touch()

    def read(count):
        with (tmp_path / "t.csv").open("w") as file:
            file.write("file,class\na.jpg,1\n")
            file.writelines(f"a.jpg,{n % 2},one cell too many\n" for n in range(count))
        options = PrepareTableOptions(input=str(tmp_path), table=str(tmp_path / "t.csv"))
        with pytest.raises(DataError, match=rf"line 22: .*\n  \.\.\. and {count - 20:,} more"):
            table_inputs(tmp_path, options)

    assert bytes_per_file(read) < MOST_BYTES / 5


@pytest.mark.parametrize("split", ["train", "validation"])
def test_further_images_of_a_class_of_imagenet_need_no_memory(tmp_path, monkeypatch, split):
    # A folder of more files than these is not sorted.
    monkeypatch.setattr("trainer.data.prepare.input_files._SORTED", 3)
    for count in (FEW, MANY):
        for folder_ in ("train", "validation"):
            (tmp_path / f"{count}/{folder_}/n00000001").mkdir(parents=True)
        for number in range(count):
            path = tmp_path / f"{count}/{split}/n00000001/an_image_of_a_usual_name_{number:07}.jpg"
            path.write_text("image")

    def find(count):
        root = tmp_path / str(count)
        inputs = imagenet_inputs(root / "train", root / "validation", None, None)
        assert sum(isinstance(file, ImageFile) for file in inputs.files()) == count

    assert bytes_per_file(find) < MOST_BYTES / 5


def test_further_groups_that_look_like_patients_need_no_memory():
    def files(count):
        return ((("train", "test")[n % 3 == 0], f"{n // 2:09}/a/{n}") for n in range(count))

    def look(count):
        column = Column("patient", lambda path: path[:9])
        assert identifying(column.name, (column.value(path) for _, path in files(count)))
        both = f"hold 2 images each, and {-(-count // 3):,} of {-(-count // 3):,} held-out"
        assert both in shared_folders(files(count), 0, divided=False)
        (warning,) = shared_values(files(count), [column])
        assert both in warning

    assert bytes_per_file(look) < MOST_BYTES / 5


def test_a_folder_of_very_many_files_is_listed_without_sorting_them(tmp_path, monkeypatch):
    write(tmp_path, 100)
    ordered = [file.path for file in in_folder(tmp_path / "in", tmp_path / "in")]
    monkeypatch.setattr("trainer.data.prepare.input_files._SORTED", 3)
    unordered = [file.path for file in in_folder(tmp_path / "in", tmp_path / "in")]
    assert sorted(unordered) == sorted(ordered)
