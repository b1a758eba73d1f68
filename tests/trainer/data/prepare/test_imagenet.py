"""ImageNet from its archives: which images are listed, where they lie, and their classes."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.io  # type: ignore[import-untyped]
from PIL import Image

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.command import run_trainer
from trainer.data.example import from_example
from trainer.data.manifest import load_manifest
from trainer.data.prepare import input_files
from trainer.data.prepare.imagenet import imagenet_inputs, prepare_imagenet
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import HIDDEN, RejectedFile
from trainer.data.tfrecord import read_shard
from trainer.errors import DataError
from trainer.options import PrepareImagenetOptions

TENCH, BIRD, MACHINE = SYNSETS = ("n01440764", "n02012849", "n03126707")
COLOURS = {TENCH: (220, 30, 30), BIRD: (30, 220, 30), MACHINE: (30, 30, 220)}
IDS = {TENCH: 2, BIRD: 3, MACHINE: 1}
"""ILSVRC2012_ID, in another order than that of the synsets."""
WORDS = {TENCH: "tench, Tinca tinca", BIRD: "crane", MACHINE: "crane"}
TRUTH = (BIRD, MACHINE, TENCH, MACHINE, BIRD)
"""Class of each validation image."""


def jpeg(synset, number=0):
    """A photograph that shows its class by its colour, and differs from the others of it."""
    image = Image.new("RGB", (40 + number, 30), COLOURS[synset])
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def tar(files, kind=tarfile.GNU_FORMAT):
    """An archive of contents, or of members that have none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as written:
        for name, content in files.items():
            member = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            member.name = name
            if isinstance(content, bytes):
                member.size = len(content)
            written.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def special(kind, target=""):
    member = tarfile.TarInfo()
    member.type, member.linkname = kind, target
    return member


IMAGES = {
    synset: {f"{synset}_{7 * number}.JPEG": jpeg(synset, number) for number in range(3)}
    for synset in SYNSETS
}
VALIDATION = {
    f"ILSVRC2012_val_{number:08d}.JPEG": jpeg(synset, number)
    for number, synset in enumerate(TRUTH, 1)
}
CONTENTS = {name: data for files in (*IMAGES.values(), VALIDATION) for name, data in files.items()}


def write(folder, files):
    """Files in a folder, and in folders below."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def train_archives(images=IMAGES):
    # As in the original, not in the order of synsets.
    return {f"{synset}.tar": tar(files) for synset, files in reversed(images.items())}


def make_train(folder, form, images=IMAGES):
    match form:
        case "archive":
            return put(folder / "ILSVRC2012_img_train.tar", tar(train_archives(images)))
        case "archives":
            return write(folder / "train", train_archives(images))
        case "folders":
            files = {f"{s}/{name}": data for s in images for name, data in images[s].items()}
            return write(folder / "train", files)
    raise ValueError(form)


def make_validation(folder, form, images=VALIDATION):
    match form:
        case "archive":
            return put(folder / "ILSVRC2012_img_val.tar", tar(images))
        case "archive with a folder":
            inside = {f"./val/{name}": data for name, data in images.items()}
            return put(folder / "ILSVRC2012_img_val.tar", tar(inside))
        case "folder":
            return write(folder / "val", images)
        case "sorted":
            sorted_ = zip(TRUTH, images.items(), strict=True)
            return write(folder / "val", {f"{s}/{name}": data for s, (name, data) in sorted_})
    raise ValueError(form)


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def meta():
    """The development kit's table: leaves in their own order, and a synset above them."""
    names = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "children")
    rows = np.empty((4, 1), [(name, object) for name in names])
    for place, synset in enumerate(sorted(SYNSETS, key=IDS.__getitem__)):
        rows[place, 0] = (IDS[synset], synset, WORDS[synset], "", 0, np.array([]))
    rows[3, 0] = (4, "n00001740", "entity", "", 3, np.array([1, 2, 3]))
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"synsets": rows})
    return buffer.getvalue()


def numbers():
    return "".join(f"{IDS[synset]}\n" for synset in TRUTH).encode()


def devkit():
    data = "ILSVRC2012_devkit_t12/data"
    files = {
        "ILSVRC2012_devkit_t12/readme.txt": b"read me",
        f"{data}/meta.mat": meta(),
        f"{data}/ILSVRC2012_validation_ground_truth.txt": numbers(),
    }
    return tar(files)


def make_truth(folder, form):
    match form:
        case "development kit":
            path = folder / "ILSVRC2012_devkit_t12.tar.gz"
            path.write_bytes(gzip.compress(devkit()))
            return path
        case "unpacked development kit":
            put(folder / "data" / "meta.mat", meta())
            return put(folder / "data" / "ILSVRC2012_validation_ground_truth.txt", numbers())
        case "synsets":
            return put(folder / "imagenet_2012_validation_synset_labels.txt", "\n".join(TRUTH))
        case "solution":
            # Kaggle's is in no order, and has boxes.
            lines = [
                f"ILSVRC2012_val_{number:08d},{synset} 1 2 33 44 {synset} 5 6 7 8 \n"
                for number, synset in enumerate(TRUTH, 1)
            ]
            header = "ImageId,PredictionString\n"
            return put(folder / "LOC_val_solution.csv", header + "".join(reversed(lines)))
    raise ValueError(form)


@pytest.fixture
def layout(tmp_path):
    """The archives as downloaded, with a synset a line."""
    return {
        "train": make_train(tmp_path, "archive"),
        "validation": make_validation(tmp_path, "archive"),
        "ground_truth": make_truth(tmp_path, "synsets"),
        "words": None,
    }


def entries(inputs):
    return [found for found in inputs.files() if isinstance(found, ImageFile)]


def refusals(inputs):
    return {found for found in inputs.files() if isinstance(found, RejectedFile)}


def listing(inputs):
    return {(found.split, found.name, found.label) for found in entries(inputs)}


def content(entry):
    with Path(entry.container).open("rb") as file:
        file.seek(entry.offset)
        return file.read(entry.size)


def fails(layout, match):
    with pytest.raises(DataError, match=match) as caught:
        list(imagenet_inputs(**layout).files())
    return str(caught.value)


EXPECTED = {
    ("train", name, label) for label, synset in enumerate(SYNSETS) for name in IMAGES[synset]
} | {
    ("validation", name, SYNSETS.index(synset))
    for name, synset in zip(VALIDATION, TRUTH, strict=True)
}


# 1. Where images lie, and their labels.


@pytest.mark.parametrize("form", ["archive", "archives", "folders"])
def test_training_images_are_found_in_every_form(layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED
    assert not refusals(inputs)
    assert inputs.synsets == SYNSETS


@pytest.mark.parametrize("form", ["archive", "archive with a folder", "folder", "sorted"])
def test_validation_images_are_found_in_every_form(layout, tmp_path, form):
    layout["validation"] = make_validation(tmp_path / "other", form)
    if form == "sorted":
        layout["ground_truth"] = None
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED
    assert not refusals(inputs)


@pytest.mark.parametrize("form", ["archive", "archives", "folders"])
def test_an_image_is_read_where_it_lies_in_what_was_named(layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    for entry in entries(imagenet_inputs(**layout)):
        assert content(entry) == CONTENTS[entry.name]
        assert entry.changed == Path(entry.container).stat().st_mtime_ns
        if form == "archive" and entry.split == "train":
            assert entry.container == str(layout["train"])


@pytest.mark.parametrize(
    "form", ["development kit", "unpacked development kit", "synsets", "solution"]
)
def test_every_form_of_ground_truth_gives_the_class_that_an_image_shows(layout, tmp_path, form):
    (tmp_path / "truth").mkdir()
    layout["ground_truth"] = make_truth(tmp_path / "truth", form)
    found = [e for e in entries(imagenet_inputs(**layout)) if e.split == "validation"]
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
    found = entries(imagenet_inputs(**layout))
    assert {(e.split, e.name, e.label) for e in found} == EXPECTED
    assert all(content(entry) == CONTENTS[entry.name] for entry in found)


def test_a_name_that_could_be_in_several_classes_is_told_with_its_class(layout, tmp_path):
    images = {synset: {"1.jpg": jpeg(synset), "a/1.jpg": jpeg(synset, 1)} for synset in SYNSETS}
    layout["train"] = make_train(tmp_path / "other", "folders", images)
    inputs = imagenet_inputs(**layout)
    names = {e.name for e in entries(inputs) if e.split == "train"}
    assert names == {f"{synset}/1.jpg" for synset in SYNSETS}
    assert refusals(inputs) == {
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


# 2. Names of classes.


@pytest.mark.parametrize(("file", "gap"), [("words.txt", "\t"), ("LOC_synset_mapping.txt", " ")])
def test_a_class_has_its_first_word_and_its_synset_where_two_share_it(layout, tmp_path, file, gap):
    lines = [f"n{number:08d}{gap}thing {number}" for number in range(100)]
    lines += [f"{synset}{gap}{words}" for synset, words in WORDS.items()]
    layout["words"] = put(tmp_path / file, "\n".join(lines))
    inputs = imagenet_inputs(**layout)
    assert inputs.classes == ("tench", f"crane ({BIRD})", f"crane ({MACHINE})")
    assert inputs.synsets == SYNSETS


def test_a_synset_without_words_names_its_class(layout, tmp_path):
    layout["words"] = put(tmp_path / "words.txt", f"{TENCH}\ttench, Tinca tinca\n\n{BIRD}\n")
    inputs = imagenet_inputs(**layout)
    assert inputs.classes == ("tench", BIRD, MACHINE)
    assert inputs.notes[1].startswith("2 of 3 classes are named by their synset")


def test_the_development_kit_names_classes_unless_words_are_given(layout, tmp_path):
    layout["ground_truth"] = make_truth(tmp_path, "development kit")
    assert imagenet_inputs(**layout).classes[0] == "tench"
    layout["words"] = put(tmp_path / "words.txt", f"{TENCH}\tdoctor fish\n")
    assert imagenet_inputs(**layout).classes[0] == "doctor fish"


def test_without_words_classes_are_their_synsets(layout):
    assert imagenet_inputs(**layout).classes == SYNSETS


@pytest.mark.parametrize(
    ("text", "match"),
    [(b"n00000001\tthing\n", "has words for none of the 3"), (b"\xff\xfe\x00", "no text in UTF-8")],
)
def test_words_of_nothing_that_is_wanted_are_refused(layout, tmp_path, text, match):
    layout["words"] = put(tmp_path / "words.txt", text)
    fails(layout, f"{layout['words']}: .*{match}")


# 3. What is left out, with its reason.


def test_members_that_are_no_plain_files_are_refused(layout, tmp_path):
    odd = {
        "../escaped.JPEG": jpeg(TENCH),
        "/absolute.JPEG": jpeg(TENCH),
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
    assert refusals(inputs) == {
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
    secret = put(tmp_path / "secret.JPEG", jpeg(TENCH))
    (train / TENCH / "out.JPEG").symlink_to(secret)
    (train / TENCH / "up").symlink_to(tmp_path)
    (train / TENCH / "nothing.JPEG").symlink_to("gone.JPEG")
    (train / TENCH / f"{TENCH}_in.JPEG").symlink_to(f"{TENCH}_0.JPEG")
    (train / TENCH / "round").symlink_to(".")
    write(train, {f"{BIRD}/.hidden/1.JPEG": b"", f"{BIRD}/.DS_Store": b"x", "notes.txt": b"x"})
    inputs = imagenet_inputs(**layout)
    assert listing(inputs) == EXPECTED | {("train", f"{TENCH}_in.JPEG", 0)}
    assert refusals(inputs) == {
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
    assert refusals(imagenet_inputs(**layout)) == {
        RejectedFile("validation", "list.txt", "is not named ILSVRC2012_val_NNNNNNNN.JPEG"),
        RejectedFile(
            "validation", "val/ILSVRC2012_val_00000001.JPEG", "has the name of another image"
        ),
        RejectedFile("validation", "ILSVRC2012_val_00000002.JPEG", "is empty"),
    }


# 4. Archives that cannot be used.


@pytest.mark.parametrize("form", ["archive", "archives"])
def test_training_archives_cut_anywhere_are_refused(layout, tmp_path, form):
    layout["train"] = make_train(tmp_path / "other", form)
    cut = layout["train"] if form == "archive" else layout["train"] / f"{BIRD}.tar"
    whole = cut.read_bytes()
    used = len(whole.rstrip(b"\0"))
    for length in range(0, used + 1, 499):
        cut.write_bytes(whole[:length])
        fails(layout, f"{cut}: is (not a tar archive|incomplete)")


def test_a_download_that_stopped_is_told_with_the_class_it_stopped_in(layout):
    path = layout["train"]
    path.write_bytes(path.read_bytes()[:-15_000])
    message = fails(layout, "is incomplete")
    assert message == (
        f"{path}: is incomplete: it ends within {TENCH}.tar; download it again, or let the download"
        " continue"
    )


def test_an_inner_archive_that_is_cut_is_named(layout, tmp_path):
    archives = train_archives()
    archives[f"{BIRD}.tar"] = archives[f"{BIRD}.tar"][:2200]
    layout["train"] = put(tmp_path / "cut.tar", tar(archives))
    fails(layout, rf"cut\.tar: {BIRD}\.tar: is incomplete: it ends within {BIRD}_7\.JPEG")


def test_a_validation_archive_that_is_cut_is_refused(layout):
    path = layout["validation"]
    path.write_bytes(path.read_bytes()[:3000])
    fails(layout, rf"{path}: is incomplete: it ends within ILSVRC2012_val_\d+\.JPEG")


def test_a_damaged_header_does_not_end_an_archive_in_silence(layout):
    path = layout["validation"]
    content = bytearray(path.read_bytes())
    content[content.index(b"ILSVRC2012_val_00000003")] ^= 1
    path.write_bytes(content)
    fails(layout, "is incomplete or damaged after ILSVRC2012_val_00000002.JPEG")


@pytest.mark.parametrize(("mode", "remedy"), [("w:gz", "gunzip"), ("w:bz2", "b"), ("w:xz", "unxz")])
@pytest.mark.parametrize("which", ["train", "validation"])
def test_compressed_archives_are_refused_with_what_to_do(layout, tmp_path, which, mode, remedy):
    layout[which] = tmp_path / "packed"
    with tarfile.open(layout[which], mode) as packed:
        packed.add(ROOT / "LICENSE", "LICENSE")
    fails(layout, f"packed: is compressed .*uncompress it first, with {remedy}")


@pytest.mark.parametrize("content", [b"", b"<html>Please sign in</html>" * 100])
def test_what_is_no_archive_is_refused(layout, content):
    layout["train"].write_bytes(content)
    fails(layout, f"{layout['train']}: is not a tar archive")


def test_a_place_without_classes_is_refused(layout, tmp_path):
    for place in (layout["validation"], tmp_path):
        fails({**layout, "train": place}, f"{place}: has neither archives nNNNNNNNN.tar")


def test_a_class_that_is_there_twice_is_refused(layout, tmp_path):
    layout["train"] = make_train(tmp_path / "other", "archives")
    make_train(tmp_path / "other", "folders", {BIRD: IMAGES[BIRD]})
    fails(layout, f"has the class {BIRD} twice, as {BIRD} and as {BIRD}.tar")


@pytest.mark.parametrize("name", [BIRD, f"{BIRD}.tar"])
def test_a_class_that_is_a_link_out_of_the_folder_is_not_left_out_in_silence(
    layout, tmp_path, name
):
    layout["train"] = make_train(tmp_path / "other", "folders", {TENCH: IMAGES[TENCH]})
    (layout["train"] / name).symlink_to(tmp_path)
    fails(layout, f"{name} is a link that leads out of the folder, so its class would be missing")


# 5. Ground truth that does not fit.


def test_numbers_alone_are_refused_as_they_are_not_labels(layout, tmp_path):
    layout["ground_truth"] = put(tmp_path / "truth.txt", numbers())
    fails(layout, r"numbers are not labels in the order of synsets.*ILSVRC2012_devkit_t12\.tar\.gz")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        (f"{TENCH}\nfish\n", "line 2: 'fish' is not a synset"),
        ("ILSVRC2012_val_00000001.JPEG 65\n", "line 1: .* is not a synset"),
        (f"{TENCH}\n" * 4 + "n09999999\n", "1 synsets that are not among the 3 .*: n09999999"),
        (f"{TENCH}\n" * 4, "has ILSVRC2012_val_00000005.JPEG, but .* classes of 4 images"),
        (f"{TENCH}\n" * 6, "has 5 images .* classes of 6; .* ILSVRC2012_val_00000006.JPEG"),
        (f"ImageId,PredictionString\nx,{TENCH}\n", "line 2: is not like"),
        ("ImageId,PredictionString\nILSVRC2012_val_00000001,\n", "line 2: is not like"),
        (
            f"ImageId,PredictionString\nILSVRC2012_val_00000002,{TENCH} 1 2 3 4\n",
            "has 1 images, but not ILSVRC2012_val_00000001",
        ),
        (
            "ImageId,PredictionString\n"
            f"ILSVRC2012_val_00000001,{TENCH}\nILSVRC2012_val_00000001,{BIRD}\n",
            "line 3: has ILSVRC2012_val_00000001 a second time",
        ),
    ],
)
def test_ground_truth_that_does_not_fit_is_refused(layout, tmp_path, text, match):
    layout["ground_truth"] = put(tmp_path / "truth.txt", text)
    assert str(layout["ground_truth"]) in fails(layout, match)


@pytest.mark.parametrize("number", ["0", "4", "77", "-1", "x"])
def test_a_number_that_is_no_leaf_of_the_development_kit_is_refused(layout, tmp_path, number):
    put(tmp_path / "meta.mat", meta())
    layout["ground_truth"] = put(tmp_path / "truth.txt", f"1\n2\n{number}\n1\n1\n")
    fails(layout, f"truth.txt, line 3: '{number}' is no ILSVRC2012_ID")


def test_a_damaged_development_kit_is_refused(layout, tmp_path):
    layout["ground_truth"] = path = make_truth(tmp_path, "development kit")
    whole = path.read_bytes()
    for length in (2, 50, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        fails(layout, f"{path}: ")
    put(tmp_path / "meta.mat", b"nonsense")
    layout["ground_truth"] = put(tmp_path / "truth.txt", numbers())
    fails(layout, "meta.mat: is not the development kit's table of synsets")


def test_a_sorted_validation_folder_of_other_classes_is_refused(layout, tmp_path):
    folder = make_validation(tmp_path / "other", "sorted")
    write(folder, {"n09999999/ILSVRC2012_val_00000009.JPEG": b"x"})
    fails({**layout, "validation": folder}, "1 synsets that are not among the 3 classes")


# 6. The command.


def test_what_is_not_named_is_told_all_at_once_with_where_to_get_it(tmp_path):
    options = PrepareImagenetOptions(validation=str(tmp_path / "no.tar"), words="no.txt")
    with pytest.raises(ConfigError) as caught:
        prepare_imagenet(options, "")
    message = str(caught.value)
    assert "--train: name ILSVRC2012_img_train.tar" in message
    assert "--validation: " in message
    assert "--words: no.txt is not there" in message
    assert message.count("image-net.org") == 2


def test_images_that_are_not_sorted_need_a_ground_truth(layout):
    with pytest.raises(ConfigError, match=r"--ground-truth: .*ILSVRC2012_devkit_t12"):
        imagenet_inputs(**{**layout, "ground_truth": None})


def test_the_output_may_not_lie_within_the_input(layout, tmp_path):
    train = make_train(tmp_path / "other", "folders")
    options = PrepareImagenetOptions(
        train=str(train), validation=str(layout["validation"]), output=str(train / "records")
    )
    with pytest.raises(ConfigError, match=r"--output: .* lies inside of --train"):
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
    for split, described in manifest.splits.items():
        for shard in described.shards:
            for record in map(from_example, read_shard(output / shard.file)):
                assert record.encoded == CONTENTS[record.filename]
                assert record.synset == SYNSETS[record.label]
                assert record.text == manifest.classes[record.label]
                found.add((split, record.filename, record.label))
    assert found == EXPECTED
