"""What common tools export is read as it is: files and folders after their documented formats."""

import io
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support.data_sets import image_files
from tests.trainer.support.data_sets.image_files import noise, write
from tests.trainer.support.data_sets.image_folders import by_name, every_record
from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.extras.detection.boxes import unpack
from trainer.extras.detection.leaf import BOXES
from trainer.extras.segmentation.leaf import MASK

COUNT = 6
SIZE = (40, 30)
BOX = (4.0, 6.0, 20.0, 12.0)
"""Left, top, width and height of the object in each image; the first class in even ones."""


def save(path):
    return image_files.save(path, noise(len(path.name), SIZE))


def line(number):
    left, top, width, height = BOX
    middle = (left + width / 2) / SIZE[0], (top + height / 2) / SIZE[1]
    return f"{number % 2} {middle[0]} {middle[1]} {width / SIZE[0]} {height / SIZE[1]}\n"


def coco(names, *, first=1, more=None, of_image=None, of_box=None):
    images = [
        {"id": n + 1, "width": SIZE[0], "height": SIZE[1], "file_name": name, **(of_image or {})}
        for n, name in enumerate(names)
    ]
    boxes = [
        {"id": n + 1, "image_id": n + 1, "category_id": first + n % 2, "bbox": list(BOX),
         "area": 240.0, "iscrowd": 0, "segmentation": [], **(of_box or {})}
        for n in range(len(names))
    ]  # fmt: skip
    kinds = [{"id": first, "name": "cat", "supercategory": ""},
             {"id": first + 1, "name": "dog", "supercategory": ""}]  # fmt: skip
    return {"images": images, "annotations": boxes, "categories": [*(more or []), *kinds]}


def roboflow_coco(root):
    """A folder of images and `_annotations.coco.json` for each split; category 0 is a root."""
    for split in ("train", "valid", "test"):
        names = [f"p{n}_jpg.rf.{n:032x}.jpg" for n in range(COUNT)]
        for name in names:
            save(root / split / name)
        content = coco(
            names,
            more=[{"id": 0, "name": "pets", "supercategory": "none"}],
            of_image={"license": 1, "date_captured": "2026-01-01T00:00:00+00:00", "extra": {}},
        )
        write(root / split / "_annotations.coco.json", {"info": {}, "licenses": [], **content})
    write(root / "README.roboflow.txt", "pets")
    return ["--classes", "cat", "dog"], 3 * COUNT


def roboflow_yolo(root):
    """images/ and labels/ below each split; paths of data.yaml begin with ../ ."""
    for split in ("train", "valid", "test"):
        for number in range(COUNT):
            save(root / split / f"images/p{number}.jpg")
            write(root / split / f"labels/p{number}.txt", line(number))
    write(
        root / "data.yaml",
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\n"
        "names: ['cat', 'dog']\n\nroboflow:\n  workspace: x\n  version: 1\n",
    )
    write(root / "README.dataset.txt", "pets")
    return [], 3 * COUNT


def cvat_coco(root):
    """annotations/instances_default.json and images/default."""
    names = [f"p{n}.jpg" for n in range(COUNT)]
    for name in names:
        save(root / "images/default" / name)
    content = coco(
        names,
        of_image={"license": 0, "flickr_url": "", "coco_url": "", "date_captured": 0},
        of_box={"attributes": {"occluded": False, "rotation": 0.0}},
    )
    head = {"licenses": [{"name": "", "id": 0, "url": ""}], "info": {"contributor": ""}}
    write(root / "annotations/instances_default.json", {**head, **content})
    return [], COUNT


def cvat_yolo(root):
    """YOLO 1.1: obj.data, obj.names, train.txt, and texts next to the images."""
    for number in range(COUNT):
        save(root / f"obj_train_data/p{number}.jpg")
        write(root / f"obj_train_data/p{number}.txt", line(number))
    write(root / "obj.names", "cat\ndog\n")
    write(root / "obj.data", "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\n")
    write(root / "train.txt", "".join(f"data/obj_train_data/p{n}.jpg\n" for n in range(COUNT)))
    return [], COUNT


def cvat_ultralytics(root):
    """images/train, labels/train, and data.yaml with numbered names and a list of files."""
    for number in range(COUNT):
        save(root / f"images/train/p{number}.jpg")
        write(root / f"labels/train/p{number}.txt", line(number))
    write(root / "data.yaml", "names:\n  0: cat\n  1: dog\npath: .\ntrain: train.txt\n")
    write(root / "train.txt", "".join(f"data/images/train/p{n}.jpg\n" for n in range(COUNT)))
    return [], COUNT


def label_studio_coco(root):
    """result.json with paths of its own upload folder, categories from 0."""
    names = [f"{n:08x}-p{n}.jpg" for n in range(COUNT)]
    for name in names:
        save(root / "images" / name)
    paths = [rf"..\..\label-studio\data\media\upload\1\{name}" for name in names]
    content = coco(paths, first=0, of_box={"ignore": 0})
    write(root / "result.json", {**content, "info": {"year": 2026, "version": "1.0"}})
    return [], COUNT


def label_studio_yolo(root):
    """images, labels, classes.txt, and notes.json, which has categories as COCO's files have."""
    for number in range(COUNT):
        save(root / f"images/{number:08x}-p{number}.jpg")
        write(root / f"labels/{number:08x}-p{number}.txt", line(number))
    write(root / "classes.txt", "cat\ndog\n")
    kinds = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
    write(root / "notes.json", {"categories": kinds, "info": {"contributor": "Label Studio"}})
    return [], COUNT


def labelme_coco(root):
    """labelme's script: JPEGImages, annotations.json, and a background of number 0."""
    names = [f"JPEGImages/p{n}.jpg" for n in range(COUNT)]
    for name in names:
        save(root / name)
    content = coco(
        names,
        more=[{"id": 0, "name": "_background_", "supercategory": None}],
        of_image={"license": 0, "url": None, "date_captured": None},
        of_box={"segmentation": [[4, 6, 24, 6, 24, 18]]},
    )
    write(root / "annotations.json", {"info": {}, "type": "instances", **content})
    return ["--classes", "cat", "dog"], COUNT


def via_coco(root):
    """VIA: numbers of images and boxes as texts in one place and as numbers in another."""
    names = [f"p{n}.jpg" for n in range(COUNT)]
    for name in names:
        save(root / name)
    content = coco(names, of_image={"license": 0, "flickr_url": "p.jpg", "coco_url": "p.jpg"})
    for box in content["annotations"]:
        box["image_id"] = str(box["image_id"])
    write(root / "via_project_coco.json", {"info": {"year": 2026}, **content, "licenses": []})
    return [], COUNT


def supervisely_coco(root):
    """A folder for each data set, with img and ann."""
    names = [f"p{n}.jpg" for n in range(COUNT)]
    for name in names:
        save(root / "ds0/img" / name)
    write(root / "ds0/ann/instances.json", coco(names))
    write(root / "meta.json", {"classes": [{"title": "cat", "shape": "rectangle"}], "tags": []})
    return [], COUNT


def coco_2017(root):
    """annotations/instances_*.json next to captions, and a folder for each split."""
    for split in ("train2017", "val2017"):
        names = [f"{n:012d}.jpg" for n in range(COUNT)]
        for name in names:
            save(root / split / name)
        write(root / f"annotations/instances_{split}.json", coco(names))
        write(root / f"annotations/captions_{split}.json", {"images": [], "annotations": []})
    return [], 2 * COUNT


def macos_zip(root):
    """An archive that macOS made, unpacked elsewhere: __MACOSX and ._ files next to all others."""
    arguments, count = roboflow_yolo(root)
    archive = root.parent / "set.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root)
            if path.is_file():
                packed.write(path, name)
                hidden = name.with_name(f"._{name.name}")
                packed.writestr(f"__MACOSX/{hidden}", b"\0\5\x16\7 of macOS")
                packed.writestr(str(hidden), b"\0\5\x16\7 of macOS")
    shutil.rmtree(root)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(root)
    (root / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    return arguments, count


@pytest.mark.parametrize(
    "export",
    [roboflow_coco, roboflow_yolo, cvat_coco, cvat_yolo, cvat_ultralytics, label_studio_coco,
     label_studio_yolo, labelme_coco, via_coco, supervisely_coco, coco_2017, macos_zip],
    ids=lambda export: export.__name__,
)  # fmt: skip
def test_boxes(tmp_path, export):
    root = tmp_path / "set"
    more, count = export(root)
    output = tmp_path / "out"
    command = ["prepare", "detection", "--input", str(root), "--output", str(output), *more]
    assert main([*command, "--processes", "1"]) == 0
    manifest = load_manifest(output)
    assert manifest.classes == ("cat", "dog")
    assert not (output / "rejected.csv").exists()
    left, top, width, height = BOX
    corners = [left, top, left + width, top + height]
    found = [record for _, record in every_record(output)]
    for record in found:
        # Roboflow appends a number of its own to the name.
        stem = record.filename.rpartition("/")[2].partition(".")[0]
        number = int(stem.removesuffix("_jpg")[-1])
        size, rows = unpack(record.more[BOXES])
        assert (rows[:, :4] * [*size, *size]).round(3).tolist() == [corners]
        assert rows[0, 4] == number % 2 == record.label
    assert len(found) == count


def painted(root, folder, suffix=".png"):
    """Masks of the class 1 in even images and 2 in odd ones."""
    for number in range(COUNT):
        save(root / f"images/p{number}.jpg")
        mask = np.zeros([30, 40], np.uint8)
        mask[6:18, 4:24] = 1 + number % 2
        path = root / folder / f"p{number}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path, mask


COLOURS = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0]], np.uint8)


def supervisely_masks(root):
    for path, mask in painted(root, "masks_machine"):
        Image.fromarray(mask).save(path)
    return "masks_machine"


def voc_palette_masks(root):
    for path, mask in painted(root, "SegmentationClass"):
        image = Image.fromarray(mask)
        image.putpalette(COLOURS.ravel().tolist())
        image.save(path)
    return "SegmentationClass"


def cvat_colour_masks(root):
    """Segmentation mask 1.1: colours of a labelmap.txt, in any order of its lines."""
    for path, mask in painted(root, "SegmentationClass"):
        Image.fromarray(COLOURS[mask]).save(path)
    write(
        root / "labelmap.txt",
        "# label:color_rgb:parts:actions\ndog:0,128,0::\nbackground:0,0,0::\ncat:128,0,0::\n",
    )
    return "SegmentationClass"


def cvat_palette_masks(root):
    """The same with a palette, whose indices are in another order than the classes."""
    for path, mask in painted(root, "SegmentationClass"):
        image = Image.fromarray(np.array([0, 2, 1], np.uint8)[mask])
        image.putpalette(COLOURS[[0, 2, 1]].ravel().tolist())
        image.save(path)
    write(root / "labelmap.txt", "background:0,0,0::\ndog:0,128,0::\ncat:128,0,0::\n")
    return "SegmentationClass"


@pytest.mark.parametrize(
    "export",
    [supervisely_masks, voc_palette_masks, cvat_colour_masks, cvat_palette_masks],
    ids=lambda export: export.__name__,
)
def test_masks(tmp_path, export):
    root, output = tmp_path / "set", tmp_path / "out"
    masks = export(root)
    command = ["prepare", "segmentation", "--images", str(root / "images"), "--masks",
               str(root / masks), "--classes", "background", "cat", "dog"]  # fmt: skip
    assert main([*command, "--output", str(output), "--processes", "1"]) == 0
    assert not (output / "rejected.csv").exists()
    found = by_name(output)
    for name, record in found.items():
        mask = np.asarray(Image.open(io.BytesIO(record.more[MASK])))
        assert (mask[6:18, 4:24] == 1 + int(name[1]) % 2).all()
        assert np.count_nonzero(mask) == 240
    assert len(found) == COUNT


def test_colours_of_masks_that_the_labelmap_does_not_have_are_named(tmp_path, capsys):
    root = tmp_path / "set"
    masks = cvat_colour_masks(root)
    pixels = np.zeros([30, 40, 3], np.uint8)
    pixels[3, 4] = (1, 2, 3)
    Image.fromarray(pixels).save(root / masks / "p1.png")
    command = ["prepare", "segmentation", "--images", str(root / "images"), "--masks",
               str(root / masks), "--output", str(tmp_path / "out"), "--max-rejected", "1",
               "--processes", "1", "--classes", "background", "cat"]  # fmt: skip
    assert main(command) == 2
    assert (
        "labelmap.txt has the label dog, which --classes does not name" in capsys.readouterr().err
    )
    assert main([*command, "dog"]) == 0
    assert "has a mask with the colour 1,2,3" in (tmp_path / "out/rejected.csv").read_text()
