"""Faults of a data set, each named with its shard and record."""

import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests import ROOT
from tests.trainer.support.command import run_trainer
from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.records import noise_record, to_example, write_records
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import ShardWriter, read_shard, write_split
from trainer.data.manifest import Sides, read_manifest
from trainer.data.prepare.options import VerifyOptions
from trainer.data.verify import verify
from trainer.errors import DataError

CLASSES = ("ant", "bee", "cat")
TRAIN, VALIDATION = "train-00001-of-00003.tfrecord", "validation-00000-of-00001.tfrecord"
RECORDS = 80
"""In each shard: more than one entry of its index."""


def picture(number, kind="PNG"):
    label = number % 3
    return noise_record(number, label, kind, text=CLASSES[label], synset=f"n{label}")


def write(folder, train=None, validation=None, **changes):
    train = train or [picture(number) for number in range(3 * RECORDS)]
    validation = validation or [picture(number, "JPEG") for number in range(5)]
    return write_records(folder, train, validation, CLASSES, **changes)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "set"
    write(folder)
    return folder


@pytest.fixture
def data(good, tmp_path):
    return shutil.copytree(good, tmp_path / "set")


@pytest.fixture
def faults(capsys):
    """A function that verifies a folder and returns its faults, and how they are summed up."""

    def check(folder, *, deep=False):
        with pytest.raises(DataError) as caught:
            verify(folder, VerifyOptions(deep=deep, processes=1))
        summary = str(caught.value)
        lines = capsys.readouterr().out.splitlines()
        assert summary.startswith(f"{folder}: ")
        assert "copy these shards again, or prepare the data set again" in summary
        if not any("more faults" in line for line in lines):
            assert f" {len(lines)} fault" in summary
        return lines

    return check


def passes(folder, capsys, *, deep=False):
    verify(folder, VerifyOptions(deep=deep, processes=1))
    return capsys.readouterr().out.splitlines()


def offsets(path):
    """Where each record begins, found without our reader."""
    data, offset, found = path.read_bytes(), 0, []
    while offset < len(data):
        found.append(offset)
        offset += 16 + struct.unpack("<Q", data[offset : offset + 8])[0]
    return found


def flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def change_record(path, number, **changes):
    """Write a shard again with another record in it, checksums and all."""
    records = list(read_shard(path))
    records[number] = to_example(replace(from_example(records[number]), **changes))
    with ShardWriter(path) as writer:
        for record in records:
            writer.write(record)


def test_a_good_set_of_jpegs_and_pngs_has_no_fault(data, capsys):
    assert passes(data, capsys, deep=True) == [f"{data}: 4 shards, 245 records, 0 faults"]


def test_a_changed_bit_is_named_and_the_records_behind_it_are_still_read(data, faults):
    path = data / TRAIN
    flip(path, offsets(path)[17] + 12 + 40)
    flip(path, offsets(path)[70] + 12 + 40)
    assert faults(data) == [
        f"{TRAIN}, record 17: its data do not match their checksum",
        f"{TRAIN}, record 70: its data do not match their checksum",
    ]


def test_a_changed_length_ends_what_can_be_read_of_a_shard(data, faults):
    path = data / TRAIN
    flip(path, offsets(path)[5])
    assert faults(data) == [
        f"{TRAIN}, record 5: its length does not match its checksum; the rest of the shard cannot"
        " be read"
    ]


def test_a_truncated_shard_is_named_with_its_sizes_and_last_record(data, faults):
    path = data / TRAIN
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-3])
    short, last = faults(data)
    assert short == f"{TRAIN}: has {size - 3:,} bytes, not {size:,}"
    assert last.startswith(f"{TRAIN}, record {RECORDS - 1}: the file ends within it")


def test_missing_records_at_the_end_are_named(data, faults):
    path = data / TRAIN
    path.write_bytes(path.read_bytes()[: offsets(path)[-2]])
    assert f"{TRAIN}: has {RECORDS - 2} records, not {RECORDS}" in faults(data)


def test_swapped_shards_are_told_from_damaged_ones(data, faults):
    other = TRAIN.replace("00001-", "00002-")
    (data / TRAIN).rename(data / "aside")
    (data / other).rename(data / TRAIN)
    (data / "aside").rename(data / other)
    found = faults(data)
    assert f"{TRAIN}: has the content of {other}" in found
    assert f"{other}: has the content of {TRAIN}" in found


def test_missing_shards_are_named_beside_other_faults(data, faults):
    (data / TRAIN).unlink()
    flip(data / VALIDATION, 30)
    assert faults(data) == [
        f"{TRAIN}: is missing",
        f"{VALIDATION}, record 0: its data do not match their checksum",
    ]


def test_a_changed_label_is_named_by_what_it_should_be(data, faults):
    change_record(data / TRAIN, 7, label=2)
    changed, other, *counts = faults(data)
    assert changed == f"{TRAIN}, record 7: its class is called 'ant', but label 2 is 'cat'"
    assert other.startswith(f"{TRAIN}: is not the file in the manifest (XXH128 ")
    assert counts == ["train: 79 images of 'ant', not 80", "train: 81 images of 'cat', not 80"]


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_class_is_named(data, faults, label):
    change_record(data / TRAIN, 7, label=label)
    assert f"{TRAIN}, record 7: label {label} is not a class, 0 to 2" in faults(data)


def test_labels_may_start_at_1(tmp_path, faults, capsys):
    records = [picture(number) for number in range(9)]
    manifest = write(tmp_path, records, records)
    later = [replace(record, label=record.label + 1) for record in records]
    splits = {
        name: write_split(tmp_path, name, later, len(split.shards), 4)
        for name, split in manifest.splits.items()
    }
    splits = {n: replace(split, class_counts=split.class_counts[1:]) for n, split in splits.items()}
    replace(manifest, splits=splits, first_label=1).save(tmp_path)
    assert len(passes(tmp_path, capsys)) == 1
    replace(manifest, splits=splits).save(tmp_path)
    assert any("label 3 is not a class, 0 to 2" in line for line in faults(tmp_path))


@pytest.mark.parametrize(
    ("number", "changes", "fault"),
    [
        (0, {"encoded": b"GIF89a"}, "is neither JPEG nor PNG"),
        (1, {"encoded": b"\x89PNG\r\n\x1a\n123"}, "has a damaged header"),
        (2, {"format": "JPEG"}, "calls its image a JPEG, but it is a PNG"),
        (3, {"height": 5}, "gives its image 5 x 9 pixels (height x width), but it has 9 x 9"),
        (4, {"encoded": picture(4, "JPEG").encoded, "format": ""}, "is a JPEG, but the manifest"),
    ],
    ids=["gif", "header", "format", "height", "encoding"],
)
def test_an_image_that_is_not_what_its_record_says_is_named(
    tmp_path, capsys, faults, number, changes, fault
):
    records = [picture(n) for n in range(6)]
    manifest = write(tmp_path, records, records)
    records[number] = replace(records[number], **changes)
    shards = write_split(tmp_path, "train", records, 3, 3).shards
    train = replace(manifest.splits["train"], shards=shards)
    replace(manifest, splits={**manifest.splits, "train": train}).save(tmp_path)
    named = f"train-0000{number // 2}-of-00003.tfrecord, record {number % 2}: {fault}"
    assert sum(line.startswith(named) for line in faults(tmp_path)) == 1


@pytest.mark.parametrize("absent", [{"format": ""}, {"height": 0, "width": 0}, {"text": ""}])
def test_what_a_record_does_not_say_is_no_fault(tmp_path, capsys, absent):
    records = [replace(picture(number), **absent) for number in range(9)]
    manifest = write(tmp_path, records, records)
    splits = {name: replace(s, encodings=("PNG",)) for name, s in manifest.splits.items()}
    replace(manifest, splits=splits).save(tmp_path)
    assert len(passes(tmp_path, capsys)) == 1


RGB = Image.fromarray(np.random.default_rng(0).integers(0, 256, [40, 40, 3], np.uint8))


@pytest.mark.parametrize(
    ("encoded", "fault"),
    [
        (saved(RGB, "PNG")[:-60], "cannot be decoded"),
        (saved(RGB, "PNG")[:-4], "the image is truncated"),
        (saved(RGB, "PNG")[:100] + b"?" + saved(RGB, "PNG")[101:], "cannot be decoded"),
        (saved(RGB, "JPEG")[:-60], "cannot be decoded (image file is truncated"),
        (saved(RGB.convert("CMYK"), "JPEG"), "although it should be treated: CMYK JPEG"),
        (saved(RGB.convert("RGBA"), "PNG"), "although it should be treated: PNG with transparency"),
    ],
    ids=["PNG", "end of a PNG", "byte of a PNG", "JPEG", "CMYK", "transparent"],
)
def test_only_a_deep_look_finds_what_is_wrong_with_pixels(tmp_path, capsys, faults, encoded, fault):
    records = [picture(number, kind) for number, kind in enumerate(["PNG", "JPEG"] * 3)]
    kind = "PNG" if encoded.startswith(b"\x89") else "JPEG"
    records[3] = replace(records[3], encoded=encoded, format=kind, height=40, width=40)
    write(tmp_path, records, records[:2])
    assert len(passes(tmp_path, capsys)) == 1
    found = faults(tmp_path, deep=True)
    assert len(found) == 1
    assert found[0].startswith(f"{TRAIN}, record 1: ")
    assert fault in found[0]


@pytest.mark.parametrize("mode", ["L", "P", "1"])
def test_pngs_that_are_read_as_they_are_meant_pass_a_deep_look(tmp_path, capsys, mode):
    encoded = saved(RGB.convert(mode), "PNG")
    records = [replace(picture(n), encoded=encoded, height=40, width=40) for n in range(3)]
    write(tmp_path, records, records)
    assert len(passes(tmp_path, capsys, deep=True)) == 1


def change_manifest(folder, **changes):
    manifest = read_manifest(folder)
    train = replace(manifest.splits["train"], **changes)
    replace(manifest, splits={**manifest.splits, "train": train}).save(folder)


def test_wrong_class_counts_are_named_by_class(data, faults):
    change_manifest(data, class_counts=(80, 81, 79))
    wanted = ["train: 80 images of 'bee', not 81", "train: 80 images of 'cat', not 79"]
    assert faults(data) == wanted


def test_counts_of_other_classes_are_named(data, faults):
    change_manifest(data, class_counts=(80, 160))
    assert faults(data) == ["train: the manifest counts images of 2 classes, not 3"]


def test_wrong_sizes_are_named_and_uncounted_ones_are_not(data, faults, capsys):
    sides = read_manifest(data).splits["train"].sides
    change_manifest(data, sides=Sides(sides.long, sides.short))
    assert faults(data) == [
        "train: the image sizes counted in the manifest differ from those of the images"
    ]
    change_manifest(data, sides=Sides())
    assert len(passes(data, capsys)) == 1


@pytest.mark.parametrize("wrong", [(0, 1), (0,), ()])
def test_wrong_offsets_are_named(data, faults, wrong):
    shards = read_manifest(data).splits["train"].shards
    changed = tuple(replace(s, offsets=wrong) if s.file == TRAIN else s for s in shards)
    change_manifest(data, shards=changed)
    wanted = "its index in the manifest is not that of its records"
    assert faults(data) == [f"{TRAIN}: {wanted}"]


def test_shards_of_nothing_are_mentioned_but_are_no_fault(data, capsys):
    (data / "train-00007-of-00009.tfrecord").write_bytes(b"")
    (data / "notes.txt").write_bytes(b"")
    lines = passes(data, capsys)
    assert lines[0] == "not in the manifest, so never read: train-00007-of-00009.tfrecord"
    assert lines[1].endswith("0 faults")


def test_of_very_many_faults_twenty_are_printed_and_all_counted(data, faults):
    for number in range(30):
        flip(data / TRAIN, offsets(data / TRAIN)[number] + 12)
    lines = faults(data)
    assert len(lines) == 21
    assert lines[-1] == f"{TRAIN}: 10 more faults"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    write(folder, [picture(number) for number in range(4)], [picture(5)])
    return folder, (folder / TRAIN).read_bytes()


@given(st.data(), st.integers(1, 255))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_any_changed_byte_is_found(small, data, change):
    folder, content = small
    offset = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[offset] ^= change
    try:
        (folder / TRAIN).write_bytes(changed)
        with pytest.raises(DataError, match=r"[1-9] faults?;"):
            verify(folder, VerifyOptions(processes=1))
    finally:
        (folder / TRAIN).write_bytes(content)


def test_the_command_prints_faults_and_its_status_says_that_there_are(data):
    done = run_trainer("verify", str(data), "--deep", "--processes", "2", cwd=data.parent)
    assert done.returncode == 0, done.stderr
    flip(data / TRAIN, 30)
    flip(data / VALIDATION, 30)
    done = run_trainer("verify", str(data), "--processes", "2", cwd=data.parent)
    assert done.returncode == 3
    assert sorted(re.findall(r"^(\S+), record 0: its data", done.stdout, re.MULTILINE)) == [
        TRAIN,
        VALIDATION,
    ]
    assert done.stderr.startswith(f"error: {data}: 4 shards, 245 records, 2 faults;")


def test_verifying_needs_no_tensorflow():
    code = "import sys; sys.modules['tensorflow'] = None; import trainer.data.verify"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
