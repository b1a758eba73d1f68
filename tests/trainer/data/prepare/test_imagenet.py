"""ImageNet from its archives: which images are listed, and where they lie."""

import io
import os
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import every_record
from tests.trainer.support.data_sets.imagenet_files import (
    BIRD,
    COLOURS,
    CONTENTS,
    EXPECTED,
    IMAGES,
    MACHINE,
    SYNSETS,
    TENCH,
    TRUTH,
    VALIDATION,
    content,
    left_out,
    listed_images,
    listing,
    make_train,
    make_truth,
    make_validation,
    photograph,
    put,
    special,
    tar,
    train_archives,
    write_files,
)
from trainer.data.manifest import load_manifest
from trainer.data.prepare import input_files
from trainer.data.prepare.imagenet import imagenet_inputs, prepare_imagenet
from trainer.data.prepare.options import PrepareImagenetOptions
from trainer.data.prepare.rejected import HIDDEN, RejectedFile

# 1. Where images lie, and their labels.


@pytest.mark.parametrize("form", ["archive", "archives", "folders"])
def test_training_images_are_found_in_every_form(layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED
    assert not left_out(inputs)
    assert inputs.synsets == SYNSETS


@pytest.mark.parametrize("form", ["archive", "archive with a folder", "folder", "sorted"])
def test_validation_images_are_found_in_every_form(layout, tmp_path, form):
    layout["validation"] = make_validation(tmp_path / "other", form)
    if form == "sorted":
        layout["ground_truth"] = None
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED
    assert not left_out(inputs)


@pytest.mark.parametrize("form", ["archive", "archives", "folders"])
def test_an_image_is_read_where_it_lies_in_what_was_named(layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    for image in listed_images(imagenet_inputs(**layout)):
        assert content(image) == CONTENTS[image.name]
        assert image.changed == Path(image.container).stat().st_mtime_ns
        if form == "archive" and image.split == "train":
            assert image.container == str(layout["train"])


@pytest.mark.parametrize(
    "form", ["development kit", "unpacked development kit", "synsets", "solution"]
)
def test_every_form_of_ground_truth_gives_the_class_that_an_image_shows(layout, tmp_path, form):
    (tmp_path / "truth").mkdir()
    layout["ground_truth"] = make_truth(tmp_path / "truth", form)
    found = [e for e in listed_images(imagenet_inputs(**layout)) if e.split == "validation"]
    assert len(found) == len(TRUTH)
    for entry in found:
        shown = np.asarray(Image.open(io.BytesIO(content(entry)))).mean((0, 1))
        synset = SYNSETS[entry.label]
        assert np.abs(shown - COLOURS[synset]).max() < 10


def test_a_part_of_imagenet_is_noted(layout):
    assert imagenet_inputs(**layout).notes[0] == (
        "3 synsets, not ImageNet's 1,000: labels are 0..2 in their sorted order"
    )


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_that_need_further_headers_are_read(layout, tmp_path, kind):
    prefix = "x" * 60 + "/" + "y" * 60
    inner = {
        f"{synset}.tar": tar({f"{prefix}/{name}": data for name, data in files.items()}, kind)
        for synset, files in IMAGES.items()
    }
    outer = tar({f"{prefix}/{name}": data for name, data in inner.items()}, kind)
    layout["train"] = put(tmp_path / "long.tar", outer)
    found = listed_images(imagenet_inputs(**layout))
    assert {(e.split, e.name, e.label) for e in found} == EXPECTED
    assert all(content(entry) == CONTENTS[entry.name] for entry in found)


def test_a_name_that_could_be_in_several_classes_is_told_with_its_class(layout, tmp_path):
    images = {
        synset: {"1.jpg": photograph(synset), "a/1.jpg": photograph(synset, 1)}
        for synset in SYNSETS
    }
    layout["train"] = make_train(tmp_path / "other", "folders", images)
    inputs = imagenet_inputs(**layout)
    names = {e.name for e in listed_images(inputs) if e.split == "train"}
    assert names == {f"{synset}/1.jpg" for synset in SYNSETS}
    assert left_out(inputs) == {
        RejectedFile("train", f"{synset}/a/1.jpg", "has the name of another image")
        for synset in SYNSETS
    }


def test_listing_reads_headers_alone_and_keeps_none_of_them(layout, tmp_path, monkeypatch):
    # A file with holes: its images take no room.
    path, size, count = tmp_path / "large.tar", 110_000, 6000
    with path.open("wb") as file:
        for synset in SYNSETS:
            each = 512 + -(-size // 512) * 512
            outer = tarfile.TarInfo(f"{synset}.tar")
            outer.size = each * (count // 3) + 1024
            file.write(outer.tobuf())
            for number in range(count // 3):
                member = tarfile.TarInfo(f"{synset}_{number}.JPEG")
                member.size = size
                file.write(member.tobuf())
                file.seek(each - 512, os.SEEK_CUR)
            file.seek(1024, os.SEEK_CUR)
        file.write(bytes(10240))
    layout["train"] = path
    read, preadv = 0, os.preadv

    def counted(*args):
        nonlocal read
        done = preadv(*args)
        read += done
        return done

    monkeypatch.setattr(input_files.os, "preadv", counted)
    inputs = imagenet_inputs(**layout)
    tracemalloc.start()
    assert sum(1 for _ in inputs.files()) == count // 3 * 3 + len(TRUTH)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Kept headers would take 1 KB each.
    assert peak < 1e6
    assert read < 0.01 * path.stat().st_size


# 2. Files that are left out, with the reason.


def test_members_that_are_no_plain_files_are_refused(layout, tmp_path):
    odd = {
        "../escaped.JPEG": photograph(TENCH),
        "/absolute.JPEG": photograph(TENCH),
        "soft.JPEG": special(tarfile.SYMTYPE, "/etc/passwd"),
        "hard.JPEG": special(tarfile.LNKTYPE, f"{TENCH}_0.JPEG"),
        "device": special(tarfile.CHRTYPE),
        "pipe": special(tarfile.FIFOTYPE),
        f"._{TENCH}_0.JPEG": b"macOS",
        f"{TENCH}_9.JPEG": b"",
    }
    folder = special(tarfile.DIRTYPE)
    images = {**IMAGES, TENCH: {"below": folder, **odd, **IMAGES[TENCH]}}
    outer = {**train_archives(images), "readme.txt": b"read me", "._n01440764.tar": b"macOS"}
    layout["train"] = put(tmp_path / "odd.tar", tar(outer))
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED
    inside = f"{TENCH}.tar"
    assert left_out(inputs) == {
        RejectedFile("train", f"{inside}/../escaped.JPEG", "its path leads out of the archive"),
        RejectedFile("train", f"{inside}//absolute.JPEG", "its path leads out of the archive"),
        RejectedFile("train", f"{inside}/soft.JPEG", "is a link"),
        RejectedFile("train", f"{inside}/hard.JPEG", "is a link"),
        RejectedFile("train", f"{inside}/device", "is not a file"),
        RejectedFile("train", f"{inside}/pipe", "is not a file"),
        RejectedFile("train", f"{inside}/._{TENCH}_0.JPEG", HIDDEN),
        RejectedFile("train", f"{TENCH}_9.JPEG", "is empty"),
        RejectedFile("train", "readme.txt", "is in no class's folder or archive"),
        RejectedFile("train", "._n01440764.tar", HIDDEN),
    }


def test_links_that_lead_out_of_the_folder_are_refused_and_others_followed(layout, tmp_path):
    layout["train"] = train = make_train(tmp_path / "other", "folders")
    secret = put(tmp_path / "secret.JPEG", photograph(TENCH))
    (train / TENCH / "out.JPEG").symlink_to(secret)
    (train / TENCH / "up").symlink_to(tmp_path)
    (train / TENCH / "nothing.JPEG").symlink_to("gone.JPEG")
    (train / TENCH / f"{TENCH}_in.JPEG").symlink_to(f"{TENCH}_0.JPEG")
    (train / TENCH / "round").symlink_to(".")
    write_files(
        train, {f"{BIRD}/.hidden/1.JPEG": b"", f"{BIRD}/.DS_Store": b"x", "notes.txt": b"x"}
    )
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED | {("train", f"{TENCH}_in.JPEG", 0)}
    assert left_out(inputs) == {
        RejectedFile("train", f"{TENCH}/out.JPEG", "is a link that leads out of the folder"),
        RejectedFile("train", f"{TENCH}/up", "is a link that leads out of the folder"),
        RejectedFile("train", f"{TENCH}/nothing.JPEG", "is a link to nothing"),
        RejectedFile("train", f"{TENCH}/round", "is a link to a folder"),
        RejectedFile("train", f"{BIRD}/.hidden", HIDDEN),
        RejectedFile("train", f"{BIRD}/.DS_Store", HIDDEN),
        RejectedFile("train", "notes.txt", "is in no class's folder or archive"),
    }


def test_single_odd_validation_files_are_refused(layout, tmp_path):
    images = {**VALIDATION, "list.txt": b"x", "val/ILSVRC2012_val_00000001.JPEG": b"again"}
    images["ILSVRC2012_val_00000002.JPEG"] = b""
    layout["validation"] = make_validation(tmp_path / "other", "archive", images)
    assert left_out(imagenet_inputs(**layout)) == {
        RejectedFile("validation", "list.txt", "is not named ILSVRC2012_val_NNNNNNNN.JPEG"),
        RejectedFile(
            "validation", "val/ILSVRC2012_val_00000001.JPEG", "has the name of another image"
        ),
        RejectedFile("validation", "ILSVRC2012_val_00000002.JPEG", "is empty"),
    }


# 3. The command.


def test_what_is_not_named_is_told_all_at_once_with_where_to_get_it(tmp_path):
    options = PrepareImagenetOptions(validation=str(tmp_path / "no.tar"), words="no.txt")
    with pytest.raises(ConfigError) as caught:
        prepare_imagenet(options, "")
    message = str(caught.value)
    assert "--train: name ILSVRC2012_img_train.tar" in message
    assert "--validation: " in message
    assert "--words: no.txt does not exist" in message
    assert message.count("image-net.org") == 2


def test_images_that_are_not_sorted_need_a_ground_truth(layout):
    with pytest.raises(ConfigError, match=r"--ground-truth: .*ILSVRC2012_devkit_t12"):
        imagenet_inputs(**{**layout, "ground_truth": None})


def test_the_output_may_not_lie_within_the_input(layout, tmp_path):
    train = make_train(tmp_path / "other", "folders")
    options = PrepareImagenetOptions(
        train=str(train), validation=str(layout["validation"]), output=str(train / "records")
    )
    with pytest.raises(ConfigError, match=r"--output: .* is inside --train"):
        prepare_imagenet(options, "")


def test_listing_imports_neither_tensorflow_nor_scipy():
    code = """
import sys, trainer.data.prepare.imagenet
sys.exit(", ".join({"tensorflow", "scipy"} & set(sys.modules)) or None)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_archives_become_records_that_say_what_their_images_are(layout, tmp_path):
    truth = make_truth(tmp_path, "development kit")
    images = {**IMAGES, MACHINE: {**IMAGES[MACHINE], f"{MACHINE}_8.JPEG": b"no image"}}
    done = run_trainer(
        *("prepare", "imagenet", "--output", "out", "--max-rejected", "1"),
        *("--train", str(make_train(tmp_path / "other", "archive", images))),
        *("--validation", str(layout["validation"]), "--ground-truth", str(truth)),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "3 synsets, not ImageNet's 1,000" in done.stdout
    output = tmp_path / "out"
    manifest = load_manifest(output)
    assert manifest.classes == ("tench", f"crane ({BIRD})", f"crane ({MACHINE})")
    assert manifest.splits["train"].class_counts == (3, 3, 3)
    assert f"{MACHINE}_8.JPEG" in (output / "rejected.csv").read_text()
    found = set()
    for split, record in every_record(output):
        assert record.encoded == CONTENTS[record.filename]
        assert record.synset == SYNSETS[record.label]
        assert record.text == manifest.classes[record.label]
        found.add((split, record.filename, record.label))
    assert found == EXPECTED
