"""A folder of images: which files of it are images, of which class and split."""

import errno
import os
import shutil
from unicodedata import normalize

import pytest

from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import (
    bytes_path,
    picture,
    prepare,
    records,
    write_images,
)
from trainer.data.manifest import load_manifest
from trainer.data.prepare.folder import folder_inputs
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError


def listed(root):
    """Classes, and split, name and class of every file, and split, name and reason of others."""
    inputs = folder_inputs(root)
    found = list(inputs.files())
    entries = {
        (e.split, e.name, inputs.classes[e.label]) for e in found if isinstance(e, ImageFile)
    }
    return inputs.classes, entries, {(r.split, r.name, r.reason) for r in found
                                     if isinstance(r, RejectedFile)}  # fmt: skip


def test_a_folder_for_each_class_is_not_divided_yet(tmp_path):
    classes, entries, others = listed(write_images(tmp_path, {"dog": 1, "cat": 2}))
    assert classes == ("cat", "dog")
    assert entries == {("", "cat/0.jpg", "cat"), ("", "cat/1.jpg", "cat"), ("", "dog/0.jpg", "dog")}
    assert not others


@pytest.mark.parametrize(
    ("train", "held_out"),
    [("train", "validation"), ("train", "val"), ("training", "valid"), ("train", "test"),
     ("Training", "Test")],
)  # fmt: skip
def test_folders_of_splits_are_known_by_their_names(tmp_path, train, held_out):
    write_images(tmp_path, {f"{train}/cat": 1, f"{train}/dog": 1, f"{held_out}/cat": 1})
    classes, entries, _ = listed(tmp_path)
    assert classes == ("cat", "dog")
    assert entries == {
        ("train", "cat/0.jpg", "cat"),
        ("train", "dog/0.jpg", "dog"),
        ("validation", "cat/0.jpg", "cat"),
    }


def test_what_is_beside_the_splits_is_named(tmp_path):
    write_images(tmp_path, {"train/cat": 1, "val/cat": 1, "test/cat": 1, "extra": 1})
    notes = folder_inputs(tmp_path).notes
    assert notes == (("ignored next to train/ and val/ and test/: ", "extra"),)


def test_a_test_split_that_serves_for_evaluation_is_named(tmp_path):
    write_images(tmp_path, {"train/cat": 1, "test/cat": 1})
    assert "test/ is used for evaluation" in folder_inputs(tmp_path).notes[0]


def test_a_lone_train_folder_is_divided(tmp_path):
    classes, entries, _ = listed(write_images(tmp_path, {"train/cat": 2}))
    assert classes == ("cat",)
    assert {split for split, *_ in entries} == {""}


def test_a_class_may_be_in_one_split_only(tmp_path, capsys):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 1, "val/dog": 1})
    manifest = prepare(root, tmp_path / "out")
    assert manifest.classes == ("cat", "dog")
    assert manifest.splits["train"].class_counts == (2, 0)
    assert "no images in train of 1 class: dog" in capsys.readouterr().err


def test_names_of_all_sorts_are_kept(tmp_path):
    write_images(tmp_path / "in", {"two words/ä/b c": 1, "日本": 1, "plain": 3})
    strange = bytes_path(tmp_path / "in" / "plain", b'caf\xe9, "a".jpg')
    strange.write_bytes(picture(99))
    prepare(tmp_path / "in", tmp_path / "out", held_out=0.01)
    found = [*records(tmp_path / "out", "train"), *records(tmp_path / "out", "validation")]
    assert {(os.fsencode(r.filename), r.text, r.label) for r in found} == {
        (b"plain/0.jpg", "plain", 0),
        (b"plain/1.jpg", "plain", 0),
        (b"plain/2.jpg", "plain", 0),
        (b'plain/caf\xe9, "a".jpg', "plain", 0),
        ("two words/ä/b c/0.jpg".encode(), "two words", 1),
        ("日本/0.jpg".encode(), "日本", 2),
    }


def test_a_class_and_a_rejected_file_need_not_be_utf_8(tmp_path):
    root = write_images(tmp_path / "in", {"plain": 3})
    folder = bytes_path(root, b"caf\xe9")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(picture(number))
    bytes_path(folder, b"\xff.jpg").write_text("no image")
    done = run_trainer("prepare", "folder", "--input", "in", "--output", "out", "--max-rejected",
                       "1", cwd=tmp_path, env={"PYTHONIOENCODING": "utf-8:strict"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert load_manifest(tmp_path / "out").classes == (os.fsdecode(b"caf\xe9"), "plain")
    assert b'caf\xe9/\xff.jpg,"is not an image' in (tmp_path / "out" / "rejected.csv").read_bytes()


def test_what_is_no_image_of_a_class_is_listed_with_its_reason(tmp_path):
    outside = write_images(tmp_path / "outside", {"x": 1}) / "x"
    root = write_images(tmp_path / "in", {"cat/old": 1, "dog": 1, ".git": 1, "__MACOSX/cat": 1})
    (root / "README.md").write_text("hello")
    (root / "cat" / ".DS_Store").write_text("x")
    (root / "cat" / "Thumbs.db").write_text("x")
    (root / "cat" / "far.jpg").symlink_to(outside / "0.jpg")
    (root / "cat" / "near.jpg").symlink_to("../dog/0.jpg")
    (root / "cat" / "more").symlink_to("../dog")
    (root / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    (root / "cat" / "round.jpg").symlink_to("round.jpg")
    os.mkfifo(root / "cat" / "pipe.jpg")
    classes, entries, others = listed(root)
    assert classes == ("cat", "dog")
    assert entries == {
        ("", "cat/old/0.jpg", "cat"), ("", "cat/near.jpg", "cat"), ("", "dog/0.jpg", "dog")
    }  # fmt: skip
    hidden, nothing = "is a hidden file", "is a link to nothing"
    assert others == {
        ("", ".git", hidden),
        ("", "__MACOSX", hidden),
        ("", "README.md", "lies in no class's folder"),
        ("", "cat/.DS_Store", hidden),
        ("", "cat/Thumbs.db", hidden),
        ("", "cat/far.jpg", "is a link that leads out of the folder"),
        ("", "cat/more", "is a link to a folder"),
        ("", "cat/gone.jpg", nothing),
        ("", "cat/round.jpg", nothing),
        ("", "cat/pipe.jpg", "is not a file"),
    }


@pytest.mark.parametrize(
    ("number", "cure"), [(errno.EIO, "run the same command again"), (errno.EACCES, "let this user")]
)
def test_a_folder_that_cannot_be_listed_ends_the_command(cats_and_dogs, monkeypatch, number, cure):
    scan = os.scandir

    def broken(path):
        if str(path).endswith("dog"):
            raise OSError(number, os.strerror(number))
        return scan(path)

    inputs = folder_inputs(cats_and_dogs)
    monkeypatch.setattr(os, "scandir", broken)
    with pytest.raises(DataError, match=f"{cats_and_dogs}/dog: cannot be listed.*{cure}"):
        list(inputs.files())


def test_a_folder_without_folders_is_explained(tmp_path):
    (tmp_path / "a.jpg").write_bytes(picture(0))
    with pytest.raises(DataError, match="put the images of each class into a folder"):
        prepare(tmp_path, tmp_path.parent / "out")


def test_a_split_needs_an_image_and_nothing_is_left_behind(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 1})
    with pytest.raises(DataError, match="no files for the split 'validation'"):
        prepare(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_class_folders_in_either_unicode_form_are_one_class(tmp_path):
    """Archives of macOS hold letters with an accent as two characters."""
    for split, form in (("train", "NFC"), ("val", "NFD")):
        for name in ("caf\u00e9", "the"):
            path = tmp_path / split / normalize(form, name) / "1.png"
            path.parent.mkdir(parents=True)
            path.touch()
    inputs = folder_inputs(tmp_path)
    assert inputs.classes == ("caf\u00e9", "the")
    assert sorted((file.split, file.label) for file in inputs.files()) == [
        ("train", 0), ("train", 1), ("validation", 0), ("validation", 1),
    ]  # fmt: skip
    # The name of a class whose folders agree is theirs.
    shutil.rmtree(tmp_path / "train")
    assert folder_inputs(tmp_path / "val").classes == ("cafe\u0301", "the")
