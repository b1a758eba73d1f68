"""A preparation as a whole: its files, their places, and failures of storage.

Interruptions and several processes are in test_interrupted.py.
"""

import errno
import os
import signal
from collections import Counter

import numpy as np
import pytest
import xxhash
from PIL import Image

from common.errors import ConfigError, UserError
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_folders import (
    content,
    finished_shards,
    manifest_of,
    picture,
    prepare,
    records,
    rejected,
    stamps,
    write_images,
)
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import SIDES, load_manifest
from trainer.data.prepare import job
from trainer.data.prepare.encode import make_rules
from trainer.data.prepare.input_files import FileReader, ImageFile, Inputs
from trainer.data.prepare.listing import Listing
from trainer.data.prepare.options import WriteOptions
from trainer.data.prepare.rejected import RejectedFile
from trainer.errors import DataError


def names(output):
    return {
        split: [r.filename for r in records(output, split)] for split in ("train", "validation")
    }


# 1. Files.


def test_every_image_is_stored_once_with_its_class(cats_and_dogs, tmp_path):
    prepare(cats_and_dogs, tmp_path / "out")
    found = names(tmp_path / "out")
    assert Counter(name.split("/")[0] for name in found["validation"]) == {"cat": 1, "dog": 1}
    assert len(found["train"]) == 17
    for split in found:
        for record in records(tmp_path / "out", split):
            assert record.encoded == (cats_and_dogs / record.filename).read_bytes()
            assert record.text == record.filename.split("/")[0]
            assert (record.height, record.width) == (16, 16)


@pytest.mark.slow
def test_a_reader_without_this_code_reads_every_key_back(cats_and_dogs, tmp_path):
    # Imported here, as it takes seconds and the other tests do without.
    import tensorflow as tf

    Image.new("RGB", (30, 20), (1, 2, 3)).save(cats_and_dogs / "dog" / "ä wide.png")
    prepare(cats_and_dogs, tmp_path / "out")
    text, number = tf.io.FixedLenFeature([], tf.string), tf.io.FixedLenFeature([], tf.int64)
    keys = {
        **dict.fromkeys(["encoded", "format", "colorspace", "filename", "class/text"], text),
        **dict.fromkeys(["height", "width", "channels", "class/label"], number),
    }
    features = {f"image/{key}": kind for key, kind in keys.items()}
    found = {}
    for data in tf.data.TFRecordDataset([str(p) for p in (tmp_path / "out").glob("*.tfrecord")]):
        assert set(tf.train.Example.FromString(data.numpy()).features.feature) == set(features)
        example = tf.io.parse_single_example(data, features)
        values = {key: value.numpy() for key, value in example.items()}
        found[values.pop("image/filename").decode()] = values
    files = [path for path in cats_and_dogs.rglob("*") if path.is_file()]
    assert found == {
        f"{path.parent.name}/{path.name}": {
            "image/encoded": path.read_bytes(),
            "image/format": b"PNG" if path.suffix == ".png" else b"JPEG",
            "image/colorspace": b"RGB",
            "image/height": 20 if path.suffix == ".png" else 16,
            "image/width": 30 if path.suffix == ".png" else 16,
            "image/channels": 3,
            "image/class/label": ["cat", "dog"].index(path.parent.name),
            "image/class/text": path.parent.name.encode(),
        }
        for path in files
    }


def test_the_manifest_is_what_is_on_disk(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "train/dog": 4, "val/cat": 2}, side=40)
    (root / "val" / "cat" / "wide.png").write_bytes(b"")
    Image.new("RGB", (300, 100), (10, 20, 30)).save(root / "val" / "cat" / "wide.png")
    manifest = prepare(root, tmp_path / "out")
    assert manifest == load_manifest(tmp_path / "out")
    for split in manifest.splits.values():
        for shard in split.shards:
            data = (tmp_path / "out" / shard.file).read_bytes()
            assert shard.bytes == len(data)
            assert shard.xxh128 == xxhash.xxh3_128(data).hexdigest()
            assert shard.examples == len(list(read_shard(tmp_path / "out" / shard.file)))
    train, held_out = manifest.splits["train"], manifest.splits["validation"]
    assert (train.class_counts, held_out.class_counts) == ((9, 4), (3, 0))
    assert (train.encodings, held_out.encodings) == (("JPEG",), ("JPEG", "PNG"))
    assert dict(zip(SIDES, train.sides.short, strict=True))[32] == 13
    assert dict(zip(SIDES, held_out.sides.short, strict=True))[96] == 1
    assert dict(zip(SIDES, held_out.sides.long, strict=True))[256] == 1
    assert manifest.origin.treatment == {"copied untouched": 15, "kept: PNG": 1}


def test_statistics_are_those_of_the_training_pixels(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 9, "val/cat": 2}, side=40)
    Image.new("RGB", (90, 90), (250, 20, 30)).save(root / "train" / "cat" / "a.png")
    Image.new("L", (90, 90), 77).save(root / "train" / "cat" / "b.jpg")
    manifest = prepare(root, tmp_path / "out")
    images = [Image.open(path).convert("RGB") for path in (root / "train" / "cat").iterdir()]
    pixels = np.concatenate([np.asarray(image).reshape(-1, 3) for image in images])
    assert manifest.normalization.mean == pytest.approx(pixels.mean(0), abs=0.01)
    assert manifest.normalization.std == pytest.approx(pixels.std(0), abs=0.01)


def test_shards_have_the_size_asked_for(tmp_path):
    root = write_images(tmp_path / "in", {"train/cat": 40, "val/cat": 1}, side=250)
    split = prepare(root, tmp_path / "out", shard_mb=1).splits["train"]
    assert split.bytes > 2e6
    assert all(0.7e6 < shard.bytes <= 1.1e6 for shard in split.shards)


def begun_by_an_earlier_version(output):
    """Leave only the record of a version that did not count shards."""
    begun = output / ".parts" / "inputs"
    begun.write_text(begun.read_text().partition(" ")[0])


@pytest.mark.parametrize("earlier", [False, True])
def test_a_data_set_keeps_the_number_of_shards_with_which_it_was_begun(tmp_path, failing, earlier):
    root = write_images(tmp_path / "in", {"train/cat": 200, "val/cat": 200})
    failing["val/cat/3.jpg"] = 3
    with pytest.raises(DataError):
        prepare(root, tmp_path / "out")
    if earlier:
        for part in (tmp_path / "out" / ".parts").glob("*.json"):
            part.unlink()
        begun_by_an_earlier_version(tmp_path / "out")
    manifest = prepare(root, tmp_path / "out")
    assert [len(split.shards) for split in manifest.splits.values()] == [1 if earlier else 3] * 2
    assert sum(split.examples for split in manifest.splits.values()) == 400


def test_images_can_be_encoded_again_and_smaller(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 4}, side=60)
    manifest = prepare(root, tmp_path / "out", reencode="20:50")
    assert manifest.origin.treatment == {"encoded again: JPEG": 4}
    assert {(r.height, r.width) for r in records(tmp_path / "out", "train")} == {(20, 20)}


def test_the_summary_tells_what_was_done(tmp_path):
    root = write_images(tmp_path / "in", {"cat": 20, "dog": 20})
    Image.new("CMYK", (8, 8)).save(root / "cat" / "c.jpg")
    (root / "cat" / "d.jpg").write_text("no image")
    done = run_trainer("prepare", "folder", "--input", "in", "--output", "out", "--max-rejected",
                       "5%", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "40 copied untouched; 1 converted: CMYK JPEG\n" in done.stdout
    assert "1 file rejected; see out/rejected.csv for the reasons" in done.stdout
    assert "out: 2 classes, version " in done.stdout
    origin = manifest_of(tmp_path / "out")["origin"]
    assert origin["command"] == "ml-trainer prepare folder --input in"
    assert origin["treatment"]["rejected"] == 1


# 2. The folder that is written.


def test_the_input_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match="--input: there is no folder"):
        prepare(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ConfigError, match="--input: name the folder"):
        prepare("", tmp_path / "out")


def test_the_output_may_not_lie_in_the_input(cats_and_dogs):
    with pytest.raises(ConfigError, match="is inside --input"):
        prepare(cats_and_dogs, cats_and_dogs / "cat" / "out")
    assert not (cats_and_dogs / "cat" / "out").exists()


def test_a_folder_with_something_else_is_refused_and_stays(cats_and_dogs, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=r"has no manifest\.json; choose .*`fit`: another --data"):
        prepare(cats_and_dogs, out)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    with pytest.raises(DataError, match="is not a folder"):
        prepare(cats_and_dogs, out / "thesis.txt")


@pytest.mark.parametrize("change", [{"seed": 1}, {"shard_mb": 1}, {"held_out": 0.5},
                                    {"reencode": "8"}, {"max_pixels": 10_000}])  # fmt: skip
def test_another_data_set_is_refused_and_stays(cats_and_dogs, tmp_path, change):
    prepare(cats_and_dogs, tmp_path / "out")
    before = stamps(tmp_path / "out")
    with pytest.raises(
        DataError,
        match=r"contains another data set, or was made .* another --output .with `fit`: a",
    ):
        prepare(cats_and_dogs, tmp_path / "out", **change)
    assert stamps(tmp_path / "out") == before


def test_the_hash_of_inputs_is_that_of_earlier_versions(tmp_path, monkeypatch):
    # Else a complete data set would be taken for another one, and an unfinished one not continued.
    def files():
        yield ImageFile("train", "cat/é\udce9.jpg", 0, "/in/cat/1.jpg", 0, 100, 7)
        yield ImageFile("validation", "dog/2.jpg", 1, "/in/dog/2.jpg", 0, 200, 9)
        yield RejectedFile("train", 'cat/.hidden "x"', "is a hidden file")

    monkeypatch.setattr("PIL.__version__", "11.0.0")
    inputs, options = (
        Inputs(("cat", "dog"), files),
        WriteOptions(reencode="292:90", metadata="keep", levels="full"),
    )
    listing = Listing(tmp_path / "listing.sqlite")
    listing.fill(inputs, options.seed, 0.1)
    found = job.hash_inputs(listing, inputs, options, make_rules(options), 0.1)
    assert found == "1d69b5f02e5f9a0bd3b27491869cffc8"


def test_a_complete_data_set_is_not_written_again(cats_and_dogs, tmp_path, capsys):
    manifest = prepare(cats_and_dogs, tmp_path / "out")
    before = stamps(tmp_path / "out")
    again = prepare(cats_and_dogs, tmp_path / "out", processes=0, max_rejected="7")
    assert again == manifest
    assert stamps(tmp_path / "out") == before
    assert f"is already complete, version {manifest.version}" in capsys.readouterr().out


# 3. Files that change, and storage that fails.


def entry_of(path):
    return ImageFile("train", f"cat/{path.name}", 0, str(path), 0, path.stat().st_size)


@pytest.mark.parametrize("content", [b"", b"abc", b"abcdefg"])
def test_a_file_of_another_size_than_listed_is_refused(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"abcdef")
    entry = entry_of(path)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.jpg: has changed since it was listed"):
        FileReader().read(entry)


def test_a_file_that_may_not_be_read_is_rejected(cats_and_dogs, tmp_path, monkeypatch):
    # Permissions do not keep the superuser from reading, which tests may be.
    opened = os.open

    def refuse(path, *args, **options):
        if str(path).endswith("cat/3.jpg"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    prepare(cats_and_dogs, tmp_path / "out", max_rejected="1")
    assert [row[1:] for row in rejected(tmp_path / "out")[1:]] == [
        ("cat/3.jpg", "cannot be read (Permission denied)")
    ]


def test_a_failure_that_passes_is_told_and_changes_nothing(
    cats_and_dogs, tmp_path, failing, capsys
):
    prepare(cats_and_dogs, tmp_path / "undisturbed")
    failing["cat/3.jpg"] = 2
    prepare(cats_and_dogs, tmp_path / "out")
    told = capsys.readouterr().err
    assert f"warning: {cats_and_dogs}/cat/3.jpg: Input/output error; trying again in 1 s" in told
    assert "again in 5 s" in told
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_failure_that_stays_names_the_file_and_the_command_continues(tmp_path, failing):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 40}, side=250)
    prepare(root, tmp_path / "undisturbed", shard_mb=1)
    last = [r.filename for r in records(tmp_path / "undisturbed", "validation")][-1]
    failing[last] = 3
    with pytest.raises(
        DataError, match=rf"{last}: cannot be read \(Input/output error\); run the same"
    ):
        prepare(root, tmp_path / "out", shard_mb=1)
    kept = finished_shards(tmp_path / "out")
    assert len(kept) >= 2
    before = stamps(tmp_path / "out")
    prepare(root, tmp_path / "out", shard_mb=1)
    after = stamps(tmp_path / "out")
    assert all(after[shard] == before[shard] for shard in kept)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_shard_that_was_damaged_before_the_restart_is_written_again(tmp_path, failing):
    root = write_images(tmp_path / "in", {"train/cat": 2, "val/cat": 40}, side=250)
    prepare(root, tmp_path / "undisturbed", shard_mb=1)
    failing[[r.filename for r in records(tmp_path / "undisturbed", "validation")][-1]] = 3
    with pytest.raises(DataError):
        prepare(root, tmp_path / "out", shard_mb=1)
    first, second, *_ = finished_shards(tmp_path / "out")
    (tmp_path / "out" / first).write_bytes(b"cut")
    (tmp_path / "out" / ".parts" / f"{second}.json").write_text("{")
    prepare(root, tmp_path / "out", shard_mb=1)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("change", ["a file more", "a changed file", "another option"])
def test_a_restart_with_something_else_is_refused(cats_and_dogs, tmp_path, failing, change):
    failing["cat/3.jpg"] = 3
    with pytest.raises(DataError, match="run the same command again"):
        prepare(cats_and_dogs, tmp_path / "out")
    before = content(tmp_path / "out")
    if change == "a file more":
        (cats_and_dogs / "dog" / "new.jpg").write_bytes(picture(77))
    elif change == "a changed file":
        (cats_and_dogs / "dog" / "0.jpg").write_bytes(picture(77))
    options = {"seed": 3} if change == "another option" else {}
    with pytest.raises(DataError, match=r"was begun with other files or options.*`fit`: another -"):
        prepare(cats_and_dogs, tmp_path / "out", **options)
    assert content(tmp_path / "out") == before


def test_a_full_disk_names_the_shard_and_the_same_command_continues(
    cats_and_dogs, tmp_path, monkeypatch
):
    prepare(cats_and_dogs, tmp_path / "undisturbed")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(UserError, match=r"out/train-.* cannot be written \(No space left"):
            prepare(cats_and_dogs, tmp_path / "out")
    prepare(cats_and_dogs, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_records_are_whole_where_a_write_takes_only_a_part(cats_and_dogs, tmp_path, monkeypatch):
    prepare(cats_and_dogs, tmp_path / "undisturbed")
    write = os.write
    monkeypatch.setattr(os, "writev", lambda file, parts: write(file, b"".join(parts)[:20]))
    prepare(cats_and_dogs, tmp_path / "out")
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_files_are_listed_leaves_nothing(tmp_path, number, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))

    def entries():
        yield ImageFile("train", "cat/a", 0, "/in/cat/a", 0, 1)
        os.kill(os.getpid(), number)
        yield ImageFile("train", "cat/b", 0, "/in/cat/b", 0, 1)

    with pytest.raises(UserError, match="interrupted with 0 shards finished") as caught:
        job.prepare(Inputs(("cat",), entries), tmp_path / "out", WriteOptions(), "prepare")
    assert caught.value.exit_code == 128 + number
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "scratch").iterdir())
