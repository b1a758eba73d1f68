"""With changed names, no reason, page or message has a name or a content of a file of labels."""

import json

import numpy as np
import pytest
from PIL import Image

from common.text import without_details
from tests.trainer.support.data_sets import image_files
from tests.trainer.support.data_sets.image_files import noise
from trainer.cli import main
from trainer.data.intake.names import KEY_VARIABLE
from trainer.data.pixels.treatment import RejectedError, damage
from trainer.extras.detection.boxes import UnfitBoxError, with_advice

TEXTS = ("PatientMeier", "Zeugnis", "Kreuzberg")


def found_in(data: bytes) -> list[str]:
    codes = ("utf-8", "utf-16-le", "utf-16-be", "latin-1")
    low = data.lower()
    return [text for text in TEXTS if any(text.lower().encode(code) in low for code in codes)]


def save(path, seed=0, **options):
    image_files.save(path, noise(seed, (40, 30)), **options)


def coco(root):
    for number in range(8):
        save(root / f"PatientMeier/{number}.jpg", number)
    boxes = [[1, 1, 9, 9]] * 6 + [[1, 1, 0, 9], [30, 1, 90, 9]]
    content = {
        "images": [{"id": n, "file_name": f"PatientMeier/{n}.jpg"} for n in range(9)],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": box} for n, box in enumerate(boxes)
        ],
        "categories": [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}],
    }
    (root / "instances_Kreuzberg.json").write_text(json.dumps(content))
    return ["detection", "--input", str(root)]


def yolo(root):
    lines = ["0 .5 .5 .2 .2", "0 .5 .5 .2 Zeugnis", "0 30 .5 .2 .2 Zeugnis", "Zeugnis 1 1 1 1",
             "0 .5 .5", "0.5 .5 .5 .1 .1", "7 .5 .5 .1 .1", "0 .5 .5 0 .1"]  # fmt: skip
    for number in range(16):
        save(root / f"PatientMeier{number}.jpg", number)
        line = lines[number % len(lines)] if number % 2 else lines[0]
        (root / f"PatientMeier{number}.txt").write_text(f"0 .5 .5 .1 .1\n{line}\n")
    (root / "PatientMeier5.txt").write_bytes(b"\xff\xfe Zeugnis")
    (root / "classes.txt").write_text("x\n")
    return ["detection", "--input", str(root)]


def table(root):
    for number in range(8):
        save(root / f"{number}.jpg", number)
    rows = [f"{number}.jpg,a" for number in range(8)] + ["Kreuzberg.jpg,a|b", "gone.jpg,b"]
    path = root.parent / "PatientMeier.csv"
    path.write_text("file,labels\n" + "\n".join(rows) + "\n")
    return ["multilabel", "--input", str(root), "--table", str(path)]


def masks(root):
    for number in range(40):
        save(root / f"images/PatientMeier{number}.jpg", number)
        values = np.full([30, 40], number % 2, np.uint8)
        values[0, 0] = 77 if number == 3 else 0
        path = image_files.save(root / f"masks/PatientMeier{number}.png", values)
    path.unlink()
    (root / "masks/PatientMeier4.png").write_bytes(b"Zeugnis")
    return [
        "segmentation", "--images", str(root / "images"), "--masks", str(root / "masks"),
        "--classes", "ground", "object",
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["hashed", "numbered"])
@pytest.mark.parametrize("form", [coco, yolo, table, masks], ids=lambda form: form.__name__)
def test_no_output_has_a_name_or_content_of_the_labels(tmp_path, monkeypatch, capfd, form, names):
    root = tmp_path / "in"
    root.mkdir()
    command = form(root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, "a key of sufficient length")
    more = ["--output", "out", "--names", names, "--max-rejected", "90%", "--processes", "2"]
    assert main(["prepare", *command, *more]) == 0
    assert main(["inspect", "out"]) == 0
    assert main(["verify", "out", "--deep", "True", "--processes", "1"]) == 0
    rejected = (tmp_path / "out/rejected.csv").read_text()
    assert len(rejected.splitlines()) >= 3
    captured = capfd.readouterr()
    assert found_in((captured.out + captured.err).encode()) == []
    outputs = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(outputs) > 4
    for path in outputs:
        assert (path.name, found_in(path.read_bytes())) == (path.name, [])
    # The same with the names of files says all of it.
    plain = ["--output", "plain", "--max-rejected", "90%", "--processes", "1"]
    assert main(["prepare", *command, *plain]) == 0
    assert found_in((tmp_path / "plain/rejected.csv").read_bytes())


def crowd(root):
    command = coco(root)
    file = root / "instances_Kreuzberg.json"
    content = json.loads(file.read_text())
    content["images"] = content["images"][:5]
    content["annotations"] = content["annotations"][:5]
    content["annotations"][0]["iscrowd"] = 1
    file.write_text(json.dumps(content))
    return command


def misplaced(root):
    for number in range(4):
        save(root / f"PatientMeier{number}.jpg", number)
        folder = root / ("Zeugnis" if number > 1 else "")
        folder.mkdir(exist_ok=True)
        (folder / f"PatientMeier{number}.txt").write_text("0 .5 .5 .2 .2")
    (root / "classes.txt").write_text("x\n")
    return ["detection", "--input", str(root)]


def columns(root):
    for number in range(6):
        save(root / f"PatientMeier{number}.jpg", number)
    table = root.parent / "Kreuzberg.csv"
    rows = (f"PatientMeier{number}.jpg;{'ab'[number % 2]};{number}\n" for number in range(5))
    table.write_text("Zeugnis;label;patient\n" + "".join(rows))
    return ["table", "--input", str(root), "--table", str(table)]


def absent_class(root):
    command = masks(root)
    (root / "masks/Kreuzberg.png").write_bytes(b"")
    return [*command, "third"]


def further_folder(root):
    for number in range(8):
        part = "train" if number < 4 else "validation"
        save(root / part / "ab"[number % 2] / f"{number}.jpg", number)
    (root / "Zeugnis").mkdir()
    return ["folder", "--input", str(root)]


NOTES = {
    crowd: ["1 crowd region, in which", "1 class without any box: y", "name them: 3 images"],
    misplaced: ["2 images without a file of labels", "2 text files not read, such as …: an image"],
    columns: [
        "…: columns separated by semicolons",
        "…: files in column …, classes in column 'label', groups in column 'patient'",
        "left out, because no row names them: 1 file",
    ],
    absent_class: ["1 class without any pixel in a mask: third", "has their name: 1 mask"],
    further_folder: ["ignored next to train/ and validation/: …"],
}


@pytest.mark.parametrize("form", NOTES, ids=lambda form: form.__name__)
def test_notes_are_printed_without_names_and_contents(tmp_path, monkeypatch, capfd, form):
    root = tmp_path / "in"
    root.mkdir()
    monkeypatch.chdir(tmp_path)
    command = ["prepare", *form(root), "--max-rejected", "90%", "--processes", "1"]
    assert main([*command, "--output", "out", "--names", "numbered"]) == 0
    captured = capfd.readouterr()
    assert found_in((captured.out + captured.err).encode()) == []
    assert [note for note in NOTES[form] if note not in captured.out] == []


HIDDEN = "the reason may quote a name or a content of a file"


def coco_with(**changes):
    """An input whose annotations have other lists, or another text."""

    def form(root):
        command = coco(root)
        file = root / "instances_Kreuzberg.json"
        content = json.loads(file.read_text())
        for key, change in changes.items():
            content[key] = change(content[key])
        file.write_text(json.dumps(content))
        return command

    return form


def table_with(text, kind="table"):
    def form(root):
        for number in range(4):
            save(root / f"PatientMeier{number}.jpg", number)
        path = root.parent / "Kreuzberg.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return [kind, "--input", str(root), "--table", str(path)]

    return form


def files_of(kind, *more, **files):
    """Files by their names, with `/` as two underscores."""

    def form(root):
        for name, content in files.items():
            path = root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                save(path, len(name) + sum(name.encode()))
            else:
                path.write_bytes(content)
        return [kind, "--input", str(root), *more]

    return form


def all_255(root):
    save(root / "images/PatientMeier.jpg")
    (root / "masks").mkdir()
    Image.fromarray(np.full([30, 40], 255, np.uint8)).save(root / "masks/PatientMeier.png")
    folders = ["--images", str(root / "images"), "--masks", str(root / "masks")]
    return ["segmentation", *folders, "--classes", "ground", "object"]


def of_colours(root):
    command = all_255(root)
    (root / "masks/labelmap.txt").write_text("Zeugnis:Kreuzberg\n")
    return command


def unreadable(root):
    command = all_255(root)
    (root / "masks/labelmap.txt").write_bytes(b"\xff Zeugnis")
    return command


LABELS = b"0 .5 .5 .2 .2"
ERRORS = {
    "annotations twice": (
        coco_with(images=lambda given: [*given, {**given[0], "id": 99}]),
        "…: has annotations twice, the second time in …; an image must have",
    ),
    "a width as text": (
        coco_with(images=lambda given: [{**given[0], "width": "Zeugnis"}, *given[1:]]),
        HIDDEN,
    ),
    "a strange box": (
        coco_with(annotations=lambda given: [{**given[0], "bbox": ["Zeugnis"]}]), HIDDEN
    ),
    "no such image": (
        coco_with(annotations=lambda given: [{**given[0], "image_id": "Zeugnis"}]), HIDDEN
    ),
    "no list": (coco_with(images=lambda _: "Zeugnis"), HIDDEN),
    "no JSON": (files_of("detection", a_jpg=None, Zeugnis_json=b'{"images": Zeugnis'), HIDDEN),
    "two files of labels": (
        files_of("detection", images__Zeugnis_jpg=None, images__Zeugnis_txt=LABELS,
                 labels__Zeugnis_txt=LABELS, classes_txt=b"x"),
        "…: has two files of labels, …; remove",
    ),
    "no names of classes": (
        files_of("detection", PatientMeier_jpg=None, PatientMeier_txt=LABELS), HIDDEN
    ),
    "no YAML": (
        files_of("detection", PatientMeier_jpg=None, PatientMeier_txt=LABELS,
                 Zeugnis_yaml=b"Zeugnis: [Zeugnis: :"), HIDDEN
    ),
    "no annotations": (files_of("detection", PatientMeier_jpg=None), HIDDEN),
    "a row twice": (
        table_with("file,label\n" + "PatientMeier1.jpg,a\n" * 2),
        "line 3: … is in line 2 already",
    ),
    "a row without a group": (
        table_with("file,label,patient\nPatientMeier1.jpg,a,\n"), "line 2: … has no group"
    ),
    "an unknown split": (
        table_with("file,label,split\nPatientMeier1.jpg,a,Zeugnis\n"), "line 2: … in the column …"
    ),
    "no column of files": (table_with("Zeugnis,label\nnone,a\n"), "no column has names of files"),
    "no column of classes": (
        table_with("file,Zeugnis\nPatientMeier1.jpg,a\n"), "name it with --class-column"
    ),
    "no names of columns": (
        table_with("PatientMeier1.jpg,a\nPatientMeier2.jpg,b\n"), "a file instead of names"
    ),
    "a column twice": (table_with("Zeugnis,Zeugnis\n1,2\n"), "several columns of the name …"),
    "a workbook": (table_with(b"PK\x03\x04 Zeugnis"), "…: is a workbook of Excel"),
    "no CSV": (table_with('file,label\n"PatientMeier1.jpg"Zeugnis,a\n'), "cannot be read as CSV"),
    "marks": (table_with("file,a,b\nPatientMeier1.jpg,1,0\n"), "prepare multilabel"),
    "no image for training": (
        table_with("file,label,split\nPatientMeier1.jpg,a,test\n"), "no image is for training"
    ),
    "a strange mark": (
        table_with("file,a,b\nPatientMeier1.jpg,1,Zeugnis\n", "multilabel"), "line 2: … in the"
    ),
    "a row of several labels twice": (
        table_with("file,labels\n" + "PatientMeier1.jpg,a\n" * 2, "multilabel"),
        "line 3: … is in line 2 already",
    ),
    "masks of 255": (all_255, "all masks have only the values 0 and 255"),
    "no colour": (of_colours, HIDDEN),
    "no text": (unreadable, HIDDEN),
    "no folders": (files_of("folder", PatientMeier_jpg=None), "…: has no folders"),
    "no group": (
        files_of("folder", "--group-by", "(none)", a__PatientMeier_jpg=None, b__1_jpg=None),
        "…: has no group; --group-by must find one",
    ),
    "a group in two splits": (
        files_of("folder", "--group-by", "(PatientMeier)", train__a__PatientMeier_jpg=None,
                 train__b__PatientMeier_jpg=None, validation__a__PatientMeier1_jpg=None),
        "groups in more than one split: 1;",
    ),
    "too many rejected": (
        files_of("folder", a__PatientMeier_jpg=b"Zeugnis", b__Zeugnis_jpg=None, b__1_jpg=None),
        "--max-rejected 1 or more; more may follow\nOr repair",
    ),
    "a broken archive": (
        files_of("webdataset", PatientMeier_tar=b"Zeugnis" * 200), "is not a tar archive"
    ),
    "a packed archive": (
        files_of("webdataset", PatientMeier_tar=b"\x1f\x8b" + b"Zeugnis" * 200), "is compressed"
    ),
    "a series with a gap": (
        files_of("webdataset", **{"Zeugnis-train-0-of-2_tar": b"", "Kreuzberg_tar": b""}),
        "shards are missing: …",
    ),
}  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
def test_no_error_has_a_name_or_content_of_the_input(tmp_path, monkeypatch, capfd, error):
    form, said = ERRORS[error]
    root = tmp_path / "in" / "PatientMeier"
    root.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    command = ["prepare", *form(root), "--processes", "1"]
    assert main([*command, "--output", "out", "--names", "numbered"]) == 3
    captured = capfd.readouterr()
    assert said in captured.err
    assert found_in((captured.out + captured.err).encode()) == []
    for path in (tmp_path / "out").rglob("*"):
        assert found_in(bytes(path) + (path.read_bytes() if path.is_file() else b"")) == []
    # With the names of files, it says all of it.
    assert main([*command, "--output", "plain"]) == 3
    assert found_in(capfd.readouterr().err.encode()) or error in TOLD_WITHOUT


TOLD_WITHOUT = {"masks of 255"}
"""Errors that name nothing."""


def test_an_error_of_the_system_is_printed_without_its_file(tmp_path, monkeypatch, capfd):
    root = tmp_path / "in"
    command = coco(root)

    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(root / "Zeugnis"))

    monkeypatch.setattr("trainer.extras.detection.data.coco.read", fails)
    output = ["--output", str(tmp_path / "out"), "--names", "numbered"]
    assert main(["prepare", *command, *output]) == 1
    assert capfd.readouterr().err == "error: [Errno 13] Permission denied\n"


def test_a_message_keeps_its_details_apart():
    error = RejectedError("has labels in ", "Zeugnis.txt", ", which are damaged", " (Zeugnis)")
    assert str(error) == "has labels in Zeugnis.txt, which are damaged (Zeugnis)"
    assert without_details(error.args) == "has labels in …, which are damaged"
    with pytest.raises(RejectedError) as raised, damage("has a damaged mask", ", Zeugnis.png"):
        raise ValueError("Zeugnis (a) b")
    assert str(raised.value) == "has a damaged mask, Zeugnis.png (Zeugnis (a) b)"
    assert without_details(raised.value.args) == "has a damaged mask…"
    unfit = with_advice(UnfitBoxError("has ", "Zeugnis", ", which has no area"), "(drop it)")
    assert str(unfit) == "has Zeugnis, which has no area (drop it)"
    assert without_details(unfit.args) == "has …, which has no area (drop it)"
