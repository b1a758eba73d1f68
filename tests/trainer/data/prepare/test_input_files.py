"""Archives that cannot be used as they are, and classes that are not whole."""

import errno
import os
import tarfile

import pytest

from tests import ROOT
from tests.trainer.support.data_sets.imagenet_files import (
    BIRD,
    IMAGES,
    TENCH,
    make_train,
    put,
    tar,
    train_archives,
)


@pytest.mark.parametrize("form", ["archive", "archives"])
def test_training_archives_cut_anywhere_are_refused(fails, layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    cut = layout["train"] if form == "archive" else layout["train"] / f"{BIRD}.tar"
    whole = cut.read_bytes()
    used = len(whole.rstrip(b"\0"))
    for length in range(0, used + 1, 499):
        cut.write_bytes(whole[:length])
        fails(layout, f"{cut}: is (not a tar archive|incomplete)")


def test_a_download_that_stopped_is_told_with_the_class_it_stopped_in(fails, layout):
    path = layout["train"]
    path.write_bytes(path.read_bytes()[:-15_000])
    message = fails(layout, "is incomplete")
    assert message == (
        f"{path}: is incomplete: it ends within {TENCH}.tar; download it again, or let the download"
        " continue"
    )


def test_an_inner_archive_that_is_cut_is_named(fails, layout, tmp_path):
    archives = train_archives()
    archives[f"{BIRD}.tar"] = archives[f"{BIRD}.tar"][:2200]
    layout["train"] = put(tmp_path / "cut.tar", tar(archives))
    fails(layout, rf"cut\.tar: {BIRD}\.tar: is incomplete: it ends within {BIRD}_7\.JPEG")


def test_a_validation_archive_that_is_cut_is_refused(fails, layout):
    path = layout["validation"]
    path.write_bytes(path.read_bytes()[:3000])
    fails(layout, rf"{path}: is incomplete: it ends within ILSVRC2012_val_\d+\.JPEG")


def test_a_damaged_header_does_not_end_an_archive_in_silence(fails, layout):
    path = layout["validation"]
    content = bytearray(path.read_bytes())
    content[content.index(b"ILSVRC2012_val_00000003")] ^= 1
    path.write_bytes(content)
    fails(layout, "is incomplete or damaged after ILSVRC2012_val_00000002.JPEG")


@pytest.mark.parametrize(("mode", "remedy"), [("w:gz", "gunzip"), ("w:bz2", "b"), ("w:xz", "unxz")])
@pytest.mark.parametrize("which", ["train", "validation"])
def test_compressed_archives_are_refused_with_what_to_do(
    fails, layout, tmp_path, which, mode, remedy
):
    layout[which] = tmp_path / "packed"
    with tarfile.open(layout[which], mode) as packed:
        packed.add(ROOT / "LICENSE", "LICENSE")
    fails(layout, f"packed: is compressed .*uncompress it first, with {remedy}")


@pytest.mark.parametrize("content", [b"", b"<html>Please sign in</html>" * 100])
def test_what_is_no_archive_is_refused(fails, layout, content):
    layout["train"].write_bytes(content)
    fails(layout, f"{layout['train']}: is not a tar archive")


def test_an_input_without_classes_is_refused(fails, layout, tmp_path):
    for path in (layout["validation"], tmp_path):
        fails({**layout, "train": path}, f"{path}: has neither archives nNNNNNNNN.tar")


def test_a_class_that_is_there_twice_is_refused(fails, layout, tmp_path):
    layout["train"] = make_train(tmp_path / "other", "archives")
    make_train(tmp_path / "other", "folders", {BIRD: IMAGES[BIRD]})
    fails(layout, f"has the class {BIRD} twice, as {BIRD} and as {BIRD}.tar")


@pytest.mark.parametrize("name", [BIRD, f"{BIRD}.tar"])
def test_a_class_that_is_a_link_out_of_the_folder_is_refused(fails, layout, tmp_path, name):
    layout["train"] = make_train(tmp_path / "other", "folders", {TENCH: IMAGES[TENCH]})
    (layout["train"] / name).symlink_to(tmp_path)
    fails(layout, f"{name} is a link that leads out of the folder, so its class would be missing")


def test_an_archive_whose_storage_fails_is_named(fails, layout, monkeypatch):
    def preadv(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", preadv)
    fails(layout, f"{layout['train']}: cannot be read \\(Input/output error\\); run the same")
