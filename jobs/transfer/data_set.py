"""A folder that is uploaded: prepared shards with their manifest, or raw files. Pure, but for
reading the manifest.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from jobs.transfer.file_reader import Hashes, Wanted
from jobs.transfer.local_files import Folder, LocalError, look_through
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.errors import DataError

VERSION_LENGTH: Final = 16
"""Hexadecimal digits, as of a manifest's version."""


@dataclass(frozen=True)
class DataSet:
    """What is sent."""

    folder: Folder
    manifest: Manifest | None

    @cached_property
    def wanted(self) -> dict[str, Wanted]:
        """All files, by name, with the manifest's checksums."""
        splits = self.manifest.splits.values() if self.manifest else ()
        sums = {shard.file: shard.xxh128 for split in splits for shard in split.shards}
        return {name: Wanted(file, sums.get(name)) for name, file in self.folder.files.items()}

    @property
    def last(self) -> str | None:
        """The file whose presence means that all others are there."""
        return FILE_NAME if self.manifest else None

    def version(self, hashes: Mapping[str, Hashes]) -> str:
        """Of the registered data set: the manifest's, or a hash of all names and contents.

        Args:
            hashes: of all files, where there is no manifest.
        """
        if self.manifest is not None:
            return self.manifest.version
        whole = hashlib.sha256()
        for name, file in self.folder.files.items():
            for part in (name.encode(), file.size.to_bytes(8, "big"), hashes[name].md5):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:VERSION_LENGTH]

    def tags(self) -> dict[str, str]:
        """Of the registered data set."""
        content = None
        if self.manifest is not None:
            content = self.folder.files[FILE_NAME].path.read_bytes()
        return tags(len(self.folder.files), self.folder.bytes, self.manifest, content)


def tags(files: int, size: int, manifest: Manifest | None, content: bytes | None) -> dict[str, str]:
    """Of a registered data set.

    Args:
        files: in all.
        size: bytes in all.
        manifest: if it has one.
        content: of the manifest's file.
    """
    found = {"files": str(files), "bytes": str(size)}
    if manifest is not None and content is not None:
        images = sum(split.examples for split in manifest.splits.values())
        found |= {"images": str(images), "classes": str(len(manifest.classes))}
        found["manifest"] = hashlib.sha256(content).hexdigest()
    return found


def read_data_set(place: Path) -> DataSet:
    """Look through a folder, and compare it with its manifest if it has one.

    Raises:
        LocalError: it cannot be sent, or does not fit its manifest.
    """
    folder = look_through(place)
    if not folder.files:
        raise LocalError(f"{place}: holds no files to send")
    if not place.is_dir() or FILE_NAME not in folder.files:
        return DataSet(folder, None)
    try:
        manifest = load_manifest(place)
    except DataError as error:
        raise LocalError(str(error)) from error
    shards = {shard.file for split in manifest.splits.values() for shard in split.shards}
    lacking = sorted(shards - set(folder.files))
    if lacking:
        raise LocalError(f"{place}: {lacking[0]} is in the manifest, but hidden; rename it")
    return DataSet(folder, manifest)
