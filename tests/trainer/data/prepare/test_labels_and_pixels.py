"""Labels that do not fit their pixels: one rule for each case, whatever the task and the form.

Each row of the table is a form of data, its task, a case, and what comes of it: taken over as it
is, taken over with a note, or refused by a reason.
"""

import io
import json
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.trainer.support.data_sets import image_files, image_folders
from tests.trainer.support.data_sets.image_files import saved, write
from tests.trainer.support.data_sets.image_folders import every_record
from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.extras.detection.boxes import unpack
from trainer.extras.detection.leaf import BOXES
from trainer.extras.segmentation.leaf import MASK

COUNT = 12
ODD = 5
"""Number of images, and the one that is unusual."""
UPRIGHT = 1


def picture(width=40, height=30):
    """An image whose upper left corner is white, with its box and its mask."""
    pixels = np.full([height, width, 3], 60, np.uint8)
    pixels[2:12, 3:9] = 250
    return pixels, (3, 2, 9, 12)


def save(path, orientation=UPRIGHT, size=(40, 30)):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"exif": exif} if orientation != UPRIGHT else {}
    image_files.save(path, picture(*size)[0], quality=95, **options)


def names(spelling="NFC"):
    return [unicodedata.normalize(spelling, f"é{n}.jpg") for n in range(COUNT)]


def images(folder, orientation, size, spelling):
    for number, name in enumerate(names(spelling)):
        turned = orientation if number == ODD else UPRIGHT
        save(folder / name, turned, size if number == ODD else (40, 30))


def classes(root, orientation, size, spelling):
    for number, name in enumerate(names(spelling)):
        save(root / "in" / "ab"[number % 2] / name, orientation if number == ODD else UPRIGHT, size)
    return ["folder", "--input", str(root / "in")]


def table(root, orientation, size, spelling):
    images(root / "in", orientation, size, spelling)
    rows = "".join(f"{name},{'ab'[n % 2]}\n" for n, name in enumerate(names()))
    (root / "t.csv").write_text("file,labels\n" + rows)
    return ["multilabel", "--input", str(root / "in"), "--table", str(root / "t.csv")]


def coco(root, orientation, size, spelling, *, sized=True, more=()):
    images(root / "in", orientation, size, spelling)
    left, top, right, bottom = picture()[1]
    entries = [{"id": n, "file_name": name} for n, name in enumerate(names())]
    for entry in entries if sized else ():
        of = size if entry["id"] == ODD else (40, 30)
        entry.update(width=of[0], height=of[1])
    content = {
        "images": entries,
        "annotations": [
            {"image_id": n, "category_id": 1, "bbox": [left, top, right - left, bottom - top]}
            for n in range(COUNT)
        ],
        "categories": [*more, {"id": 1, "name": "white"}],
    }
    (root / "in/a.json").write_text(json.dumps(content))
    return ["detection", "--input", str(root / "in")]


def yolo(root, orientation, size, spelling, *, labels="in"):
    images(root / "in", orientation, size, spelling)
    (root / "in/classes.txt").write_text("white\n")
    for number, name in enumerate(names()):
        width, height = size if number == ODD else (40, 30)
        left, top, right, bottom = picture()[1]
        middle = (left + right) / 2 / width, (top + bottom) / 2 / height
        line = f"0 {middle[0]} {middle[1]} {(right - left) / width} {(bottom - top) / height}\n"
        write((root / labels / name).with_suffix(".txt"), line)
    return ["detection", "--input", str(root / "in")]


def masks(root, orientation, size, spelling, *, white=1, mode="L"):
    images(root / "images", orientation, size, spelling)
    for number, name in enumerate(names()):
        width, height = size if number == ODD else (40, 30)
        left, top, right, bottom = picture()[1]
        mask = np.zeros([height, width], np.uint8)
        mask[top:bottom, left:right] = white
        image = Image.fromarray(mask)
        image = image.point(lambda v: v and 255).convert("1") if mode == "1" else image
        image_files.save((root / "masks" / name).with_suffix(".png"), image)
    return [
        "segmentation", "--images", str(root / "images"), "--masks", str(root / "masks"),
        "--classes", "ground", "white",
    ]  # fmt: skip


def rows_of(root, orientation, size, spelling, **columns):
    """Parquet files with the images and a column of something for each."""
    images(root / "files", orientation, size, spelling)
    stored = [(root / "files" / name).read_bytes() for name in names(spelling)]
    rows = pa.table({"image": [{"bytes": data} for data in stored], **columns})
    (root / "in").mkdir()
    for split in ("train", "validation"):
        pq.write_table(rows, root / f"in/{split}-00000-of-00001.parquet")
    return ["parquet", "--input", str(root / "in")]


def parquet_labels(root, orientation, size, spelling):
    return rows_of(root, orientation, size, spelling, label=[n % 2 for n in range(COUNT)])


def parquet_lists(root, orientation, size, spelling):
    lists = [["a"], ["b"], ["a", "b"]] * (COUNT // 3)
    return rows_of(root, orientation, size, spelling, labels=lists)


def parquet_masks(root, orientation, size, spelling):
    masks_ = [{"bytes": saved(Image.new("L", (40, 30), 1), "PNG")}] * COUNT
    return rows_of(root, orientation, size, spelling, mask=masks_)


def parquet(root, orientation, size, spelling):
    left, top, right, bottom = picture()[1]
    boxes = [{"bbox": [[left, top, right - left, bottom - top]], "category": [0]}] * COUNT
    command = rows_of(root, orientation, size, spelling, objects=boxes)
    (root / "names.txt").write_text("white\n")
    return [
        *command, "--class-names", str(root / "names.txt"),
        "--label-column", "objects", "--target-form", "xywh",
    ]  # fmt: skip


TURNED = {
    "upright": (1, (40, 30)),
    "mirrored": (2, (40, 30)),
    "upside down": (3, (40, 30)),
    "sideways": (6, (40, 30)),
    "square": (6, (36, 36)),
}
UNCLEAR = "is turned by its EXIF, so it is not clear"
OTHER = "as if it were not turned upright"
RULES = {
    # Classes are the same whichever way up.
    classes: dict.fromkeys(TURNED, ""),
    table: dict.fromkeys(TURNED, ""),
    coco: {"upright": "", "mirrored": UNCLEAR, "upside down": UNCLEAR, "sideways": OTHER,
           "square": UNCLEAR},
    yolo: {"upright": "", "mirrored": UNCLEAR, "upside down": UNCLEAR, "sideways": UNCLEAR,
           "square": UNCLEAR},
    masks: {"upright": "", "mirrored": UNCLEAR, "upside down": UNCLEAR,
            "sideways": "but its mask 40 x 30", "square": UNCLEAR},
    parquet: {"upright": "", **dict.fromkeys(list(TURNED)[1:], UNCLEAR)},
    # Labels are of the whole image, whichever way up.
    parquet_labels: dict.fromkeys(TURNED, ""),
    parquet_lists: dict.fromkeys(TURNED, ""),
    # Read from folders alone, where the rules of masks are.
    parquet_masks: dict.fromkeys(TURNED, "`prepare segmentation`"),
}  # fmt: skip


def prepare(root, command, *more):
    given = ["--output", str(root / "out"), "--processes", "1", "--max-rejected", "20%"]
    return main(["prepare", *command, *given, *more])


def reasons(root):
    return [*image_folders.reasons(root / "out").values()]


def records(root):
    return [record for _, record in every_record(root / "out")]


@pytest.mark.parametrize("turned", TURNED)
@pytest.mark.parametrize("form", RULES, ids=lambda form: form.__name__)
def test_an_image_that_exif_turns(tmp_path, capsys, form, turned):
    orientation, size = TURNED[turned]
    command, reason = form(tmp_path, orientation, size, "NFC"), RULES[form][turned]
    if command[0] == "parquet":
        # Read in place, where nothing is left out.
        assert main(["prepare", *command, "--processes", "1"]) == (3 if reason else 0)
        assert reason in capsys.readouterr().err
        return
    assert prepare(tmp_path, command) == 0
    assert [reason in found for found in reasons(tmp_path)] == [True] * bool(reason)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", [coco, yolo, masks], ids=lambda form: form.__name__)
def test_labels_of_the_stored_pixels_are_turned_with_them(tmp_path, form, orientation):
    """The labelled corner is white in each of the eight orientations."""
    command = form(tmp_path, orientation, (40, 30), "NFC")
    assert prepare(tmp_path, command, "--turned-images", "stored") == 0
    assert reasons(tmp_path) == []
    checked = 0
    for record in records(tmp_path):
        image = np.asarray(Image.open(io.BytesIO(record.encoded)).convert("L"))
        if form is masks:
            mask = Image.open(io.BytesIO(record.more[MASK]))
            inside = np.asarray(mask) == 1
        else:
            _, ((left, top, right, bottom, *_),) = unpack(record.more[BOXES])
            height, width = image.shape
            inside = np.zeros(image.shape, bool)
            inside[round(top * height) : round(bottom * height),
                   round(left * width) : round(right * width)] = True  # fmt: skip
        assert inside.sum() == 60
        assert image[inside].mean() > 235
        assert image[~inside].mean() < 70
        checked += 1
    assert checked == COUNT


@pytest.mark.parametrize("form", [coco, yolo, masks], ids=lambda form: form.__name__)
def test_labels_of_the_upright_pixels_stay(tmp_path, form):
    command = form(tmp_path, 3, (40, 30), "NFC")
    assert prepare(tmp_path, command, "--turned-images", "upright") == 0
    assert reasons(tmp_path) == []


@pytest.mark.parametrize("form", [table, coco, yolo, masks], ids=lambda form: form.__name__)
def test_a_name_in_another_unicode_form_is_found(tmp_path, form):
    """macOS stores é as two characters, tables and JSON have it as one."""
    assert prepare(tmp_path, form(tmp_path, 1, (40, 30), "NFD")) == 0
    assert reasons(tmp_path) == []
    assert len(records(tmp_path)) == COUNT


@pytest.mark.parametrize("form", [table, coco], ids=lambda form: form.__name__)
def test_of_two_forms_of_a_name_the_same_one_is_meant(tmp_path, form):
    command = form(tmp_path, 1, (40, 30), "NFC")
    for name in names("NFD"):
        save(tmp_path / "in" / name, size=(30, 30))
    assert prepare(tmp_path, command) == 0
    assert {record.width for record in records(tmp_path)} == {40}


def test_files_that_nobody_names_are_counted(tmp_path, capsys):
    for form in (table, coco, masks):
        root = tmp_path / form.__name__
        root.mkdir()
        command = form(root, 1, (40, 30), "NFC")
        if form is masks:
            Image.new("L", (40, 30)).save(root / "masks/alone.png")
            (root / "masks/._alone.png").write_bytes(b"of macOS")
        else:
            save(root / "in/alone.jpg")
            save(root / "in/__MACOSX/alone.jpg")
            (root / "in/._alone.jpg").write_bytes(b"of macOS")
        assert prepare(root, command) == 0
        said = capsys.readouterr().out
        assert {
            "table": "left out, because the table does not name them: 1 image\n",
            "coco": "left out, because no annotations name them: 1 image\n",
            "masks": "left out, because no usable image has their name: 1 mask\n",
        }[form.__name__] in said


@pytest.mark.parametrize("labels", ["in/images", "in/labels"])
def test_labels_of_yolo_are_beside_the_images_or_in_labels(tmp_path, labels):
    command = yolo(tmp_path, 1, (40, 30), "NFC", labels=labels)
    (tmp_path / "in/images").mkdir(exist_ok=True)
    for name in names():
        (tmp_path / "in" / name).rename(tmp_path / "in/images" / name)
    assert prepare(tmp_path, command) == 0
    assert all(len(unpack(record.more[BOXES])[1]) == 1 for record in records(tmp_path))


def test_half_of_the_labels_beside_the_images_are_read_as_well(tmp_path, capsys):
    """They were taken as without objects, with status 0."""
    command = yolo(tmp_path, 1, (40, 30), "NFC", labels="in/images")
    for name in names():
        (tmp_path / "in" / name).rename(tmp_path / "in/images" / name)
    (tmp_path / "in/labels").mkdir()
    for number in range(6):
        (tmp_path / f"in/images/é{number}.txt").rename(tmp_path / f"in/labels/é{number}.txt")
    assert prepare(tmp_path, command) == 0
    assert "without a file of labels" not in capsys.readouterr().out
    (tmp_path / "in/labels/é9.txt").write_text("0 .5 .5 .1 .1")
    assert prepare(tmp_path, command) == 3
    assert "has two files of labels, images" not in capsys.readouterr().out


def test_texts_with_the_name_of_an_image_that_are_not_read_are_counted(tmp_path, capsys):
    command = yolo(tmp_path, 1, (40, 30), "NFC", labels="in/images")
    for name in names()[:6]:
        (tmp_path / "in" / name).rename(tmp_path / "in/images" / name)
    assert prepare(tmp_path, command) == 0
    assert "6 text files not read, such as images/é10.txt" in capsys.readouterr().out


def test_masks_of_0_and_255_alone_are_refused(tmp_path, capsys):
    """The network would have seen background only."""
    assert prepare(tmp_path, masks(tmp_path, 1, (40, 30), "NFC", white=255)) == 3
    said = capsys.readouterr().err
    assert "have only the values 0 and 255" in said
    assert "write the pixels of white as 1" in said


def test_masks_of_one_bit_have_two_classes(tmp_path, capsys):
    assert prepare(tmp_path, masks(tmp_path, 1, (40, 30), "NFC", mode="1")) == 0
    assert "without any pixel" not in capsys.readouterr().out
    assert {record.label for record in records(tmp_path)} == {1}


def test_a_class_without_any_pixel_is_named(tmp_path, capsys):
    command = masks(tmp_path, 1, (40, 30), "NFC")
    for path in sorted((tmp_path / "masks").iterdir())[:4]:
        mask = np.asarray(Image.open(path))
        Image.fromarray(np.where(mask, 255, 0).astype(np.uint8)).save(path)
    assert prepare(tmp_path, [*command, "black"]) == 0
    said = capsys.readouterr().out
    assert "1 class without any pixel in a mask: black, and 255 covers 2%: is it meant" in said


def test_an_empty_root_of_categories_is_named_and_can_be_left_out(tmp_path, capsys):
    """Roboflow writes a parent of all categories with number 0, which no object has."""
    root = [{"id": 0, "name": "objects", "supercategory": "none"}]
    command = coco(tmp_path, 1, (40, 30), "NFC", more=root)
    assert prepare(tmp_path, command) == 0
    assert load_manifest(tmp_path / "out").classes == ("objects", "white")
    assert "1 class without any box: objects; name the others" in capsys.readouterr().out
    more = ["--output", str(tmp_path / "two"), "--classes", "white"]
    assert main(["prepare", *command, *more]) == 0
    assert load_manifest(tmp_path / "two").classes == ("white",)
    assert "without any box" not in capsys.readouterr().out
    assert main(["prepare", *command, "--output", str(tmp_path / "no"), "--classes", "cat"]) == 2
    assert "no category is called 'cat'; there are objects, white" in capsys.readouterr().err


def test_boxes_of_a_category_that_is_left_out_are_counted(tmp_path, capsys):
    command = coco(tmp_path, 1, (40, 30), "NFC", more=[{"id": 0, "name": "black"}])
    assert prepare(tmp_path, command, "--classes", "black") == 0
    assert "does not name their class: 12 boxes" in capsys.readouterr().out
