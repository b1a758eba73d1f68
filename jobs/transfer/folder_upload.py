"""Make a folder in a container equal to another folder: shards with a manifest, or raw files.

The container is listed until no file is missing, and the manifest is uploaded last: a data set that
has one is complete. Files that exist with the same size and hash are not uploaded again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from azure.storage.blob import ContainerClient

from common.text import listing, plural
from jobs.azure.storage import Blob, listed
from jobs.errors import RequestError
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.local_files import Hashes, LocalError, LocalFile, LocalFolder, scan
from jobs.transfer.parallel import for_each
from jobs.transfer.progress import Progress
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.errors import DataError

VERSION_LENGTH: Final = 16
"""Hexadecimal digits of a version, as in a manifest's version."""
ROUNDS: Final = 8
"""Rounds of listing the container and uploading what is missing; two suffice unless it loses
uploads."""


@dataclass(frozen=True)
class LocalDataSet:
    """A local folder to upload."""

    folder: LocalFolder
    manifest: Manifest | None

    @cached_property
    def files(self) -> dict[str, LocalFile]:
        """All files by name, with their checksums in the manifest."""
        splits = self.manifest.splits.values() if self.manifest else ()
        checksums = {shard.file: shard.xxh128 for split in splits for shard in split.shards}
        return {
            name: replace(file, xxh128=checksums.get(name))
            for name, file in self.folder.files.items()
        }

    @property
    def last(self) -> str | None:
        """Name of the file that is uploaded last: if it exists, so do all others."""
        return FILE_NAME if self.manifest else None

    @cached_property
    def manifest_content(self) -> bytes | None:
        """Content of the manifest, or None without a manifest."""
        return self.folder.files[FILE_NAME].path.read_bytes() if self.manifest else None

    def version(self, hashes: Mapping[str, Hashes]) -> str:
        """Return the data set's version: the manifest's, or a hash of all names and contents.

        Args:
            hashes: Hashes of all files by name; only used without a manifest.
        """
        if self.manifest is not None:
            return self.manifest.version
        whole = hashlib.sha256()
        for name, file in self.folder.files.items():
            for part in (name.encode(), file.size.to_bytes(8, "big"), hashes[name].md5):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:VERSION_LENGTH]


def read_data_set(path: Path) -> LocalDataSet:
    """Scan a folder, and compare it with its manifest if it has one.

    Raises:
        LocalError: The folder cannot be uploaded, or does not match its manifest.
    """
    folder = scan(path)
    if not folder.files:
        raise LocalError(f"{path}: contains no files to upload")
    if not path.is_dir() or FILE_NAME not in folder.files:
        return LocalDataSet(folder, None)
    try:
        manifest = load_manifest(path)
    except DataError as error:
        raise LocalError(str(error)) from error
    if manifest.files:
        raise LocalError(
            f"{path}: its manifest refers to files in {manifest.files}; prepare these without"
            " --output, and upload that folder"
        )
    shards = {shard.file for split in manifest.splits.values() for shard in split.shards}
    hidden = sorted(shards - set(folder.files))
    if hidden:
        raise LocalError(f"{path}: {hidden[0]} is in the manifest, but is a hidden file; rename it")
    return LocalDataSet(folder, manifest)


@dataclass
class FolderUpload:
    """Upload of one folder."""

    data: LocalDataSet
    """Files to upload."""
    source: str
    """Where they are, for messages."""
    client: ContainerClient
    """Client of the container."""
    target: str
    """Folder in the container as the user gave it, such as prepared/imagenet."""
    folder: str
    """Folder in the container."""
    hashes: dict[str, Hashes] = field(default_factory=dict)
    """Hashes of all files that are known to be in the container, by name."""
    new: set[str] = field(default_factory=set)
    """Names of the files that this upload has sent."""

    def preview(self) -> dict[str, list[str]]:
        """Return names of files by what `run` would do with them, without reading the files."""
        blobs = self._list()
        would: dict[str, list[str]] = {"send": [], "compare": [], "replace": [], "keep": []}
        for name, file in self.data.files.items():
            blob = blobs.get(name)
            if blob is None:
                would["send"].append(name)
            elif is_same(file, blob, None):
                would["keep"].append(name)
            else:
                would["compare" if blob.size == file.size else "replace"].append(name)
        return would

    def run(self, uploader: BlobUploader) -> None:
        """Upload missing files until none is missing; existing ones are verified by their hashes.

        Raises:
            LocalError: Some files cannot be uploaded.
            ConflictError: The folder must not change, but would.
            RequestError: The container's listing never matches the uploaded files.
            AzureError: The container refused a request.
        """
        for _ in range(ROUNDS):
            blobs = self._list()
            lacking = [
                file
                for name, file in self.data.files.items()
                if not self._is_there(file, blobs.get(name), uploader.progress)
            ]
            next_files = [file for file in lacking if file.name != self.data.last] or lacking
            if not next_files:
                return
            self._send(next_files, blobs, uploader)
        raise RequestError(
            f"{self.target}: after {ROUNDS} rounds its files still differ from the uploaded ones;"
            " check whether someone else writes to this folder"
        )

    def _send(
        self, files: Sequence[LocalFile], blobs: Mapping[str, Blob], uploader: BlobUploader
    ) -> None:
        problems = []

        def work(file: LocalFile) -> None:
            try:
                hashes, is_new = uploader.send(file, blobs.get(file.name))
            except LocalError as error:
                problems.append(str(error))
                return
            if file.name not in self.hashes:
                uploader.progress.file()
            self.hashes[file.name] = hashes
            if is_new:
                self.new.add(file.name)

        for_each(files, work, uploader.threads, uploader.retry)
        if problems:
            raise LocalError(
                f"{self.source}: some files could not be uploaded:\n{listing(problems)}"
            )

    def _is_there(self, file: LocalFile, blob: Blob | None, progress: Progress) -> bool:
        if blob is None or not is_same(file, blob, self.hashes.get(file.name)):
            return False
        if file.name not in self.hashes:
            assert blob.md5 is not None
            self.hashes[file.name] = Hashes(blob.md5, blob.xxh128)
            progress.kept(blob.size)
            progress.file()
        return True

    def _list(self) -> dict[str, Blob]:
        blobs = listed(self.client, self.folder)
        strange = sorted(set(blobs) - set(self.data.files))
        if strange:
            raise LocalError(
                f"{self.target}: contains {plural(len(strange), 'file')} that {self.source} does"
                f" not, such as {strange[0]}; upload to an empty folder, or to one where this"
                " upload was interrupted"
            )
        return blobs


def is_same(file: LocalFile, blob: Blob, hashes: Hashes | None) -> bool:
    """Whether a blob is known to equal a file without reading the file. Pure.

    Args:
        file: File, with its checksum in the manifest if there is one.
        blob: Blob of the file's name.
        hashes: Hashes of the file, or None if it was not read yet.
    """
    if blob.size != file.size or blob.md5 is None:
        return False
    if hashes is not None:
        return blob.md5 == hashes.md5
    return file.xxh128 is not None and blob.xxh128 == file.xxh128
