"""Folders of images for tests, and the files on disk afterwards."""

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.trainer.support.data_sets.image_files import noise, saved
from trainer.data.example import Record, from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import Manifest, load_manifest
from trainer.data.prepare.folder import prepare_folder
from trainer.data.prepare.options import PrepareFolderOptions


def picture(number: int, side: int = 16, quality: int = 90) -> bytes:
    """A JPEG of noise that differs from those of other numbers."""
    return saved(noise(number, (side, side)), "JPEG", quality=quality)


def write_images(root: Path, counts: Mapping[str, int], side: int = 16) -> Path:
    """Folders with so many images each; their names may have several levels."""
    number = 0
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True)
        for place in range(count):
            (folder / f"{place}.jpg").write_bytes(picture(number, side))
            number += 1
    return root


def prepare(root: Path, output: Path, **options: Any) -> Manifest:
    """Prepare in this process."""
    wanted = {"processes": 1, "input": str(root), "output": str(output), **options}
    return prepare_folder(PrepareFolderOptions(**wanted), "prepare")


def content(folder: Path) -> dict[str, str]:
    """A hash of each file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def records(output: Path, split: str) -> list[Record]:
    """All records of a split, in their order."""
    manifest = load_manifest(output)
    return [
        from_example(data)
        for shard in manifest.splits[split].shards
        for data in read_shard(output / shard.file)
    ]


def every_record(output: Path) -> Iterator[tuple[str, Record]]:
    """The records of a data set, each with its split."""
    for split in load_manifest(output).splits:
        yield from ((split, record) for record in records(output, split))


def by_name(output: Path) -> dict[str, Record]:
    """The records of a data set by the names of their images, each of which it has once."""
    found = [record for _, record in every_record(output)]
    named = {record.filename: record for record in found}
    assert len(named) == len(found)
    return named


def reasons(output: Path) -> dict[str, str]:
    """The reasons in rejected.csv by the names of files, each of which has one; none without it."""
    rows = rejected(output)[1:] if (output / "rejected.csv").exists() else []
    named = {name: reason for _, name, reason in rows}
    assert len(named) == len(rows)
    return named


def rejected(output: Path) -> list[tuple[str, ...]]:
    """The rows of rejected.csv, the heads first."""
    with (output / "rejected.csv").open(newline="", errors="surrogateescape") as file:
        return [tuple(row) for row in csv.reader(file)]


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file below a folder was changed, and which file it is."""
    found = {str(path.relative_to(folder)): path.stat() for path in folder.rglob("*")}
    return {name: (status.st_mtime_ns, status.st_ino) for name, status in found.items()}


def finished_shards(output: Path) -> list[str]:
    """Shards that a restart keeps."""
    return sorted(path.stem for path in (output / ".parts").glob("*.json"))


def manifest_of(output: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((output / "manifest.json").read_text())
    return data


def bytes_path(folder: Path, name: bytes) -> Path:
    """A path whose name need not be UTF-8."""
    return Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
