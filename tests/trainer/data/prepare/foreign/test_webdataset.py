"""WebDataset's tar archives: which of their files are images, of which class and split."""

import errno
import json
import os

import pytest

from common.errors import ConfigError
from tests.trainer.support.data_sets.image_folders import (
    content,
    picture,
    records,
    rejected,
)
from tests.trainer.support.data_sets.imagenet_files import special, tar
from trainer.data.prepare.foreign.webdataset import (
    find_archives,
    prepare_webdataset,
    webdataset_inputs,
)
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.options import PrepareWebdatasetOptions, VerifyOptions
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.verify import verify
from trainer.errors import DataError
from trainer.extras.parquet.describe import find_files


def samples(count, first=0, label=lambda number: number % 3, side=16):
    """Files of some samples, labels in KEY.cls."""
    files = {}
    for number in range(first, first + count):
        files[f"{number:06d}.jpg"] = picture(number, side)
        files[f"{number:06d}.cls"] = str(label(number)).encode()
    return files


def write(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar(files))
    return path


@pytest.fixture
def archives(tmp_path):
    """Three archives, in a folder as they are published."""
    folder = tmp_path / "set"
    write(folder / "imagenet-train-000000.tar", samples(20))
    write(folder / "imagenet-train-000001.tar", samples(20, 20))
    write(folder / "imagenet-val-000000.tar", samples(6, 40))
    return folder


def prepare(folder, output, **options):
    given = (str(folder),) if not isinstance(folder, tuple) else folder
    wanted = {"input": given, "output": str(output), "processes": 1, **options}
    return prepare_webdataset(PrepareWebdatasetOptions(**wanted), "the command")


def listed(files, names=(), field="label", folder=None):
    """Names and labels of the images in an archive, and reasons by name of others."""
    inputs = webdataset_inputs({"": {"a.tar": write(folder / "a.tar", files)}}, names, field)
    found = list(inputs.files())
    images = {file.name: file.label for file in found if isinstance(file, ImageFile)}
    others = {file.name: file.reason for file in found if isinstance(file, RejectedFile)}
    return inputs.classes, images, others


def test_every_image_is_stored_once_with_its_label_and_not_a_byte_changed(archives, tmp_path):
    manifest = prepare(archives, tmp_path / "out")
    assert manifest.classes == ("class 0", "class 1", "class 2")
    assert manifest.splits["train"].class_counts == (14, 13, 13)
    for split, first, count in (("train", 0, 40), ("validation", 40, 6)):
        found = {record.filename: record for record in records(tmp_path / "out", split)}
        assert len(found) == count
        for name, record in found.items():
            number = int(name.rpartition("/")[2].partition(".")[0])
            assert first <= number < first + count
            assert record.encoded == picture(number)
            assert record.label == number % 3
    assert "imagenet-train-000001.tar/000021.jpg" in {
        record.filename for record in records(tmp_path / "out", "train")
    }
    verify(tmp_path / "out", VerifyOptions(deep=True, processes=1))


def test_archives_without_a_split_are_divided(tmp_path):
    write(tmp_path / "set" / "00000.tar", samples(30))
    write(tmp_path / "set" / "00001.tar", samples(30, 30))
    manifest = prepare(tmp_path / "set", tmp_path / "out", held_out=0.2)
    assert [manifest.splits[split].class_counts for split in ("train", "validation")] == [
        (16, 16, 16),
        (4, 4, 4),
    ]


def test_archives_can_be_named_one_by_one(archives, tmp_path):
    given = tuple(str(archives / f"imagenet-{name}-000000.tar") for name in ("train", "val"))
    manifest = prepare(given, tmp_path / "out")
    assert {name: split.examples for name, split in manifest.splits.items()} == {
        "train": 20,
        "validation": 6,
    }


def test_archives_of_the_same_name_are_refused_unless_a_folder_tells_them_apart(tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / folder / "train-0.tar", samples(3))
    with pytest.raises(DataError, match=r"two archives train-0\.tar; name a folder that contains"):
        find_archives((str(tmp_path / "a"), str(tmp_path / "b" / "train-0.tar")))
    assert list(find_archives((str(tmp_path),))[""]) == ["a/train-0.tar", "b/train-0.tar"]


@pytest.mark.parametrize("find", [lambda folder: find_archives((str(folder),)), find_files])
def test_a_folder_that_may_not_be_listed_is_refused(tmp_path, monkeypatch, find):
    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=f"{tmp_path}: cannot be listed"):
        find(tmp_path)


def test_where_the_input_is_does_not_change_a_byte(archives, tmp_path, monkeypatch):
    prepare(archives / "imagenet-train-000000.tar", tmp_path / "absolute")
    monkeypatch.chdir(archives)
    prepare("imagenet-train-000000.tar", tmp_path / "relative")
    assert content(tmp_path / "relative") == content(tmp_path / "absolute")


def test_labels_are_read_from_json_by_the_name_of_their_field(tmp_path):
    files = {
        "a.png": picture(0), "a.json": json.dumps({"fine": 2, "label": 0}).encode(),
        "b.jpeg": picture(1), "b.json": json.dumps({"fine": "1"}).encode(),
        "c.jpg": picture(2), "c.json": b'{"label": 1}',
        "d.jpg": picture(2), "d.json": b"[3]",
        "e.jpg": picture(2), "e.json": b"{",
    }  # fmt: skip
    classes, images, others = listed(files, field="fine", folder=tmp_path)
    assert images == {"a.tar/a.png": 2, "a.tar/b.jpeg": 1}
    assert len(classes) == 3
    assert "no field 'fine', see --label-field; its fields are label" in others["a.tar/c"]
    assert "no field 'fine'" in others["a.tar/d"]
    assert "its .json cannot be parsed" in others["a.tar/e"]


def test_labels_may_be_names_of_classes(tmp_path):
    files = {
        "a.jpg": picture(0),
        "a.cls": b"cat\n",
        "b.jpg": picture(1),
        "b.cls": b"0",
        "c.jpg": picture(0),
        "c.cls": b"cow",
        "d.jpg": picture(1),
        "d.cls": b"2",
    }
    classes, images, others = listed(files, ("ant", "cat"), folder=tmp_path)
    assert classes == ("ant", "cat")
    assert images == {"a.tar/a.jpg": 1, "a.tar/b.jpg": 0}
    which = "which is not a class, 0 to 1 nor one of the names"
    assert others == {
        "a.tar/c": f"has the label 'cow', {which}",
        "a.tar/d": f"has the label '2', {which}",
    }


def test_what_is_no_sample_is_listed_with_its_reason(tmp_path):
    files = {
        "good.x/a.b.jpg": b"",
        "good.x/a.jpg": picture(0),
        "good.x/a.cls": b"0",
        "good.x/a.txt": b"a caption",
        "good.x/a.seg.png": b"a mask",
        "alone.jpg": picture(1),
        "text.cls": b"1",
        "text.txt": b"no image",
        "two.jpg": picture(2),
        "two.png": picture(3),
        "two.cls": b"1",
        "UPPER.JPG": picture(4),
        "UPPER.CLS": b"1",
        "minus.jpg": picture(5),
        "minus.cls": b"-1",
        "README": b"hello",
        "._a.jpg": b"what a Mac leaves",
        "link.jpg": special(b"2", "a.jpg"),
    }
    _, images, others = listed(files, folder=tmp_path)
    assert images == {"a.tar/good.x/a.jpg": 0, "a.tar/UPPER.JPG": 1}
    assert others == {
        "a.tar/alone": "has no label: neither .cls nor .json has its name",
        "a.tar/text": "has no image: none of .jpg, .jpeg, .png, .webp",
        "a.tar/two": "has several images: .jpg, .png",
        "a.tar/minus": "has the label '-1', which is not a class, 0 to 99,999; name them with"
        " --class-names",
        "a.tar/README": "has no extension, so it belongs to no image",
        "a.tar/._a.jpg": "is a hidden file",
        "a.tar/link.jpg": "is a link",
    }


def test_samples_that_are_left_out_count_against_the_limit(archives, tmp_path):
    files = samples(20)
    del files["000003.cls"]
    write(archives / "imagenet-train-000000.tar", files)
    with pytest.raises(DataError, match=r"--max-rejected 1%(.|\n)*000003 has no label"):
        prepare(archives, tmp_path / "out")
    manifest = prepare(archives, tmp_path / "out", max_rejected="1")
    assert manifest.splits["train"].examples == 39
    assert [row[1] for row in rejected(tmp_path / "out")[1:]] == [
        "imagenet-train-000000.tar/000003"
    ]


def test_what_cannot_begin_is_told(tmp_path):
    with pytest.raises(ConfigError, match="--input: name the archives, or their folder"):
        prepare((), tmp_path / "out")
    with pytest.raises(ConfigError, match=r"--input: .*nowhere does not exist"):
        prepare(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match=r"set: has no files \*.tar of the train and the val"):
        prepare(tmp_path / "set", tmp_path / "out")
    write(tmp_path / "set" / "val-0.tar", samples(3))
    with pytest.raises(
        DataError,
        match=r"has no files \*.tar of the train split; files are",
    ):
        prepare(tmp_path / "set", tmp_path / "out")
    write(tmp_path / "set" / "train-0.tar", {"a.jpg": picture(0)})
    (tmp_path / "set" / "val-0.tar").unlink()
    with pytest.raises(DataError, match=r"no image with a label; for example, train-0\.tar/a has"):
        prepare(tmp_path / "set", tmp_path / "out")
