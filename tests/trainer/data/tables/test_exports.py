"""CSV files of common tools: read as they are, or refused with the cure. Files follow the formats
that the tools document; each is of the same six images.
"""

import json

import pytest

from tests.trainer.support.data_sets.image_folders import by_name, picture
from trainer.cli import main
from trainer.data.manifest import load_manifest

COUNT = 6
KINDS = ("cat", "dog")
SIZE = 20


def write(root, content, *, encoding="utf-8", folder=""):
    for number in range(COUNT):
        path = root / "in" / folder / f"p{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    # As bytes, because line ends are those of the tool.
    (root / "t.csv").write_bytes(content.encode(encoding))


def kind(number):
    return KINDS[number % 2]


def excel_german(root):
    """Semicolons, Windows-1252, CRLF."""
    lines = [f"p{n}.jpg;{kind(n)};Köln" for n in range(COUNT)]
    write(root, "\r\n".join(["Datei;Klasse;Ort", *lines, ""]), encoding="cp1252")


def excel_german_utf8(root):
    """ "CSV UTF-8" of a German Excel: a mark and semicolons."""
    lines = [f"p{n}.jpg;{kind(n)};Köln" for n in range(COUNT)]
    write(root, "\r\n".join(["Datei;Klasse;Ort", *lines, ""]), encoding="utf-8-sig")


def excel_english(root):
    """ "CSV UTF-8" of an English Excel: a mark and commas, and empty cells at the end."""
    lines = [f"p{n}.jpg,{kind(n)},," for n in range(COUNT)]
    write(root, "\r\n".join(["File Name,Class,,", *lines, ",,,", ""]), encoding="utf-8-sig")


def excel_unicode_text(root):
    """ "Unicode Text": UTF-16 with a mark, and tabs."""
    lines = [f"p{n}.jpg\t{kind(n)}" for n in range(COUNT)]
    write(root, "\r\n".join(["file\tlabel", *lines, ""]), encoding="utf-16")


def excel_separator_note(root):
    lines = [f"p{n}.jpg;{kind(n)}" for n in range(COUNT)]
    write(root, "\r\n".join(["sep=;", "file;class", *lines, ""]))


def label_studio(root):
    """CSV of choices: a path of its upload folder, with a part of a number before the name."""
    lines = [f"/data/upload/1/p{n}.jpg,{n},{kind(n)},1,{n},2026-01-01,9.1" for n in range(COUNT)]
    write(root, "\n".join(["image,id,choice,annotator,annotation_id,created_at,lead_time", *lines]))


def via_regions_as_classes(root):
    """VIA's CSV without regions: attributes of a file as JSON, which hold no class of their own."""
    head = "filename,file_size,file_attributes,region_count,region_id"
    head += ",region_shape_attributes,region_attributes"
    shape = {"name": "rect", "x": 4, "y": 6, "width": 8, "height": 9}
    cells = [json.dumps(value).replace('"', '""') for value in (shape, {"class": "cat"})]
    lines = [f'p{n}.jpg,100,"{{}}",1,0,"{cells[0]}","{cells[1]}"' for n in range(COUNT)]
    write(root, "\n".join([head, *lines]))


def roboflow_boxes(root):
    """ "Tensorflow Object Detection" CSV: a line for each box."""
    lines = [f"p{n // 2}.jpg,20,20,{kind(n)},1,2,9,12" for n in range(2 * COUNT)]
    write(root, "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *lines]))


def one_box_each(root):
    """The same with one box for each image, which a table of classes looks like."""
    lines = [f"p{n}.jpg,20,20,{kind(n)},1,2,9,12" for n in range(COUNT)]
    write(root, "\n".join(["filename,width,height,class,xmin,ymin,xmax,ymax", *lines]))


def automl_boxes(root):
    """Google AutoML: no names of columns; set, address, label, corners."""
    sets = ("TRAIN", "TRAIN", "TRAIN", "TRAIN", "VALIDATION", "TEST")
    lines = [f"{s},gs://b/p{n}.jpg,{kind(n)},0.1,0.2,,,0.5,0.6,," for n, s in enumerate(sets)]
    write(root, "\n".join(lines))


def automl_classes(root):
    """Vertex AI, images with one label: no names of columns."""
    lines = [f"training,gs://bucket/p{n}.jpg,{kind(n)}" for n in range(COUNT)]
    write(root, "\n".join(lines))


def retinanet(root):
    """keras-retinanet and VGG converters: no names of columns; path, corners, class."""
    write(root, "\n".join(f"p{n}.jpg,1,2,9,12,{kind(n)}" for n in range(COUNT)))


def supervisely_tags(root):
    """A table of tags, which has no class for an image but a 1 for each tag."""
    lines = [f"p{n}.jpg,{1 - n % 2},{n % 2}" for n in range(COUNT)]
    write(root, "\n".join(["Image Name,cat,dog", *lines]))


def roboflow_multiclass(root):
    """_classes.csv: a 1 for each class, with spaces behind commas."""
    lines = [f"p{n}.jpg, {1 - n % 2}, {n % 2}" for n in range(COUNT)]
    write(root, "\n".join(["filename, cat, dog", *lines]))


def prepare(root, command, *more):
    return main(
        ["prepare", command, "--input", str(root / "in"), "--table", str(root / "t.csv"),
         "--output", str(root / "out"), "--processes", "1", "--held-out", "0.4", *more]
    )  # fmt: skip


@pytest.mark.parametrize(
    "export",
    [excel_german, excel_german_utf8, excel_english, excel_unicode_text, excel_separator_note,
     label_studio],
    ids=lambda export: export.__name__,
)  # fmt: skip
def test_a_table_of_classes_is_read_as_it_is(tmp_path, export):
    export(tmp_path)
    # Label Studio's column of classes is called after the control that the user has defined.
    more = ["--class-column", "choice"] if export is label_studio else []
    assert prepare(tmp_path, "table", *more) == 0
    output = tmp_path / "out"
    assert load_manifest(output).classes == KINDS
    found = {name: record.text for name, record in by_name(output).items()}
    assert found == {f"p{n}.jpg": kind(n) for n in range(COUNT)}


@pytest.mark.parametrize("export", [supervisely_tags, roboflow_multiclass],
                         ids=lambda export: export.__name__)  # fmt: skip
def test_a_table_of_marks_is_one_of_several_labels(tmp_path, capsys, export):
    export(tmp_path)
    assert prepare(tmp_path, "table") == 3
    assert "`prepare multilabel`" in capsys.readouterr().err
    assert prepare(tmp_path, "multilabel") == 0
    assert load_manifest(tmp_path / "out").classes == KINDS


@pytest.mark.parametrize("command", ["table", "multilabel"])
@pytest.mark.parametrize(
    "export",
    [roboflow_boxes, one_box_each, via_regions_as_classes],
    ids=lambda export: export.__name__,
)
def test_a_table_of_boxes_is_refused(tmp_path, capsys, export, command):
    """A box each was taken for a class of the whole image, with status 0."""
    export(tmp_path)
    assert prepare(tmp_path, command) == 3
    said = capsys.readouterr().err
    assert "has boxes" in said
    assert "export COCO's JSON or YOLO's texts, and use `prepare detection`" in said


@pytest.mark.parametrize("command", ["table", "multilabel"])
@pytest.mark.parametrize("export", [automl_boxes, automl_classes, retinanet],
                         ids=lambda export: export.__name__)  # fmt: skip
def test_a_table_without_names_of_columns_is_refused(tmp_path, capsys, export, command):
    export(tmp_path)
    assert prepare(tmp_path, command) == 3
    said = capsys.readouterr().err
    assert "its first line has a file instead of names of columns" in said
