"""Shards as an independent reader sees them."""

import struct

import pytest
import xxhash

from tests.trainer.support.data_sets.independent_reader import read
from trainer.data.example import Record
from trainer.data.formats.tfrecord import write_shard, write_split
from trainer.data.manifest import SplitCounts


def record(number):
    return Record(
        encoded=bytes([number % 256]) * (number * 7 % 50 + 1),
        format="PNG" if number % 3 else "JPEG",
        height=number + 1,
        width=number + 2,
        label=number % 4,
        text=f"class {number % 4}",
        filename=f"ü{number}.png",
    )


def test_an_independent_reader_reads_every_key_back(tmp_path):
    write_shard(
        tmp_path / "a.tfrecord", [record(number) for number in range(5)], SplitCounts.empty(4)
    )
    wanted = [
        {
            "image/encoded": r.encoded,
            "image/format": r.format.encode(),
            "image/height": r.height,
            "image/width": r.width,
            "image/channels": 3,
            "image/colorspace": b"RGB",
            "image/filename": r.filename.encode(),
            "image/class/label": r.label,
            "image/class/text": r.text.encode(),
        }
        for r in map(record, range(5))
    ]
    assert read([tmp_path / "a.tfrecord"]) == wanted


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 200])
def test_the_index_points_at_every_64th_record(tmp_path, count):
    path = tmp_path / "a.tfrecord"
    shard = write_shard(path, [record(number) for number in range(count)], SplitCounts.empty(4))
    data, offsets, offset = path.read_bytes(), [], 0
    while offset < len(data):
        offsets.append(offset)
        # A record is its length in 8 bytes, their checksum in 4, the data, and theirs in 4.
        offset += 8 + 4 + struct.unpack("<Q", data[offset : offset + 8])[0] + 4
    assert len(offsets) == shard.examples == count
    assert list(shard.offsets) == offsets[::64]


def test_a_shard_is_described_as_it_is_on_disk(tmp_path):
    path = tmp_path / "a.tfrecord"
    shard = write_shard(path, [record(number) for number in range(9)], SplitCounts.empty(4))
    assert shard.file == "a.tfrecord"
    assert shard.bytes == path.stat().st_size
    assert shard.xxh128 == xxhash.xxh3_128(path.read_bytes()).hexdigest()


def test_a_split_keeps_the_order_of_its_records(tmp_path):
    records = [record(number) for number in range(11)]
    split = write_split(tmp_path, "train", records, shards=3, classes=5)
    found = read([tmp_path / shard.file for shard in split.shards])
    assert [r["image/filename"].decode() for r in found] == [r.filename for r in records]


def test_a_split_describes_its_records(tmp_path):
    records = [record(number) for number in range(11)]
    split = write_split(tmp_path, "train", records, shards=3, classes=5)
    assert split.class_counts == (3, 3, 3, 2, 0)
    assert split.encodings == ("JPEG", "PNG")
    assert [shard.examples for shard in split.shards] == [3, 4, 4]


def test_more_shards_than_records_leave_some_empty(tmp_path):
    split = write_split(tmp_path, "train", [record(0), record(1)], shards=5, classes=4)
    assert sum(shard.examples for shard in split.shards) == 2
    assert all((tmp_path / shard.file).exists() for shard in split.shards)
