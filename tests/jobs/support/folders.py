"""Create folders to upload."""

import os

import xxhash

from trainer.data.manifest import Manifest, Normalization, Origin, Shard, Split

_NOISE = os.urandom(1 << 20)


def content(number, size):
    """Return bytes that are different for each number."""
    whole = number.to_bytes(8, "big") + _NOISE * (size // len(_NOISE) + 1)
    return whole[:size]


def write_files(folder, count, size):
    """Write raw files."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"file-{number:05d}.bin").write_bytes(content(number, size))
    return folder


def write_shards(folder, count=4, size=20_000, seed=0):
    """Write shards with a manifest; their content is not TFRecord."""
    folder.mkdir(parents=True)
    shards = []
    for number in range(count):
        name, data = f"train-{number:05d}.tfrecord", content(seed * 1_000_000 + number, size)
        (folder / name).write_bytes(data)
        shards.append(Shard(name, 10, len(data), xxhash.xxh3_128_hexdigest(data), (0,)))
    split = Split(tuple(shards), (5 * count, 5 * count), ("JPEG",))
    manifest = Manifest(
        classes=("cat", "dog"),
        normalization=Normalization((1.0, 2.0, 3.0), (1.0, 1.0, 1.0)),
        splits={"train": split},
        origin=Origin(command="prepare"),
    )
    manifest.save(folder)
    return folder
