"""Makes a folder of a container equal to a local one: shards with a manifest, or raw files.

The container is listed until nothing lacks, and the manifest is sent last: a data set that has one
is complete. What is there already, with the same size and hash, is not sent again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from azure.storage.blob import ContainerClient

from common.text import listing, size
from jobs.azure.storage import Blob, listed
from jobs.errors import ConflictError, RequestError
from jobs.retry import Retry
from jobs.transfer.blob_upload import BlobUploader, OccupiedError
from jobs.transfer.local_files import Hashes, LocalError, LocalFile, LocalFolder, scan
from jobs.transfer.parallel import for_each
from jobs.transfer.progress import Progress
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.errors import DataError

VERSION_LENGTH: Final = 16
"""Hexadecimal digits, as of a manifest's version."""
ROUNDS: Final = 8
"""Times that a container is listed and completed; two are enough unless it loses what it took."""


@dataclass(frozen=True)
class LocalDataSet:
    """A local folder that is sent."""

    folder: LocalFolder
    manifest: Manifest | None

    @cached_property
    def files(self) -> dict[str, LocalFile]:
        """All files, by name, with the manifest's checksums."""
        splits = self.manifest.splits.values() if self.manifest else ()
        checksums = {shard.file: shard.xxh128 for split in splits for shard in split.shards}
        return {
            name: replace(file, xxh128=checksums.get(name))
            for name, file in self.folder.files.items()
        }

    @property
    def last(self) -> str | None:
        """The file whose presence means that all others are there."""
        return FILE_NAME if self.manifest else None

    @cached_property
    def manifest_content(self) -> bytes | None:
        """Content of the manifest's file, if there is one."""
        return self.folder.files[FILE_NAME].path.read_bytes() if self.manifest else None

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


def read_data_set(path: Path) -> LocalDataSet:
    """Look through a folder, and compare it with its manifest if it has one.

    Raises:
        LocalError: it cannot be sent, or does not fit its manifest.
    """
    folder = scan(path)
    if not folder.files:
        raise LocalError(f"{path}: holds no files to send")
    if not path.is_dir() or FILE_NAME not in folder.files:
        return LocalDataSet(folder, None)
    try:
        manifest = load_manifest(path)
    except DataError as error:
        raise LocalError(str(error)) from error
    shards = {shard.file for split in manifest.splits.values() for shard in split.shards}
    hidden = sorted(shards - set(folder.files))
    if hidden:
        raise LocalError(f"{path}: {hidden[0]} is in the manifest, but hidden; rename it")
    return LocalDataSet(folder, manifest)


class FolderUpload:
    """One upload.

    Args:
        data: what is sent.
        source: what a person calls the local folder.
        client: of the container; made without retries of its own.
        target: what a person calls the folder in the container, such as prepared/imagenet.
        folder: in the container.
        retry: repeats requests.
        progress: is told what was sent.
        threads: files, and as many blocks of large files, that are sent at once.
        overwrite: whether files with other content may be replaced.
        complete: the error to raise if something lacked in a folder that must not change.
    """

    def __init__(
        self,
        data: LocalDataSet,
        source: str,
        client: ContainerClient,
        target: str,
        folder: str,
        retry: Retry,
        progress: Progress,
        *,
        threads: int,
        overwrite: bool,
        complete: ConflictError | None = None,
    ) -> None:
        self._data, self._source = data, source
        self._client, self._target, self._folder = client, target, folder
        self._retry, self._progress, self._threads = retry, progress, threads
        self._overwrite, self._complete = overwrite, complete
        self.hashes: dict[str, Hashes] = {}
        """Of all files that are known to be in the container."""
        self.new: set[str] = set()
        """Names of the files that were sent now."""
        self._problems: list[str] = []

    def preview(self) -> dict[str, list[str]]:
        """What would be sent, without reading the files: names by what would be done."""
        blobs = self._list()
        would: dict[str, list[str]] = {"send": [], "compare": [], "replace": [], "keep": []}
        for name, file in self._data.files.items():
            blob = blobs.get(name)
            if blob is None:
                would["send"].append(name)
            elif is_same(file, blob, None):
                would["keep"].append(name)
            else:
                would["compare" if blob.size == file.size else "replace"].append(name)
        return would

    def run(self) -> None:
        """Send what lacks until nothing does; what is there is compared, not believed.

        Raises:
            LocalError: some of it cannot be sent.
            ConflictError: the folder must not change, and would.
            RequestError: the container never lists what it was sent.
            AzureError: the container refuses.
        """
        for _ in range(ROUNDS):
            blobs = self._list()
            lacking = [
                file
                for name, file in self._data.files.items()
                if not self._is_there(file, blobs.get(name))
            ]
            next_files = [file for file in lacking if file.name != self._data.last] or lacking
            if not next_files:
                return
            self._send(next_files, blobs)
        raise RequestError(
            f"{self._target}: lists other files than it was sent, again and again; does someone"
            " else write to this folder?"
        )

    def say_how_far(self) -> None:
        """Tell a person that nothing is lost."""
        self._progress.say(
            f"stopped: {len(self.new):,} of {len(self._data.files):,} files and"
            f" {size(self._progress.total_moved)} were sent now; the same command sends what is"
            " still missing, and no more"
        )

    def _send(self, files: Sequence[LocalFile], blobs: Mapping[str, Blob]) -> None:
        with ThreadPoolExecutor(self._threads) as block_threads:
            uploader = BlobUploader(
                self._client,
                self._folder,
                self._retry,
                self._progress,
                block_threads,
                self._threads,
                overwrite=self._overwrite and self._complete is None,
                closed=self._complete is not None,
            )

            def work(file: LocalFile) -> None:
                try:
                    uploaded = uploader.send(file, blobs.get(file.name))
                except OccupiedError as error:
                    if self._complete is not None:
                        raise self._complete from None
                    self._problems.append(str(error))
                    return
                except LocalError as error:
                    self._problems.append(str(error))
                    return
                if file.name not in self.hashes:
                    self._progress.file()
                self.hashes[file.name] = uploaded.hashes
                if uploaded.new:
                    self.new.add(file.name)

            for_each(files, work, self._threads, self._retry)
        if self._problems:
            raise LocalError(
                f"{self._source}: not all of it could be sent:\n{listing(self._problems)}"
            )

    def _is_there(self, file: LocalFile, blob: Blob | None) -> bool:
        if blob is None or not is_same(file, blob, self.hashes.get(file.name)):
            return False
        if file.name not in self.hashes:
            assert blob.md5 is not None
            self.hashes[file.name] = Hashes(blob.md5, blob.xxh128)
            self._progress.kept(blob.size)
            self._progress.file()
        return True

    def _list(self) -> dict[str, Blob]:
        blobs = self._retry.call(lambda: listed(self._client, self._folder))
        strange = sorted(set(blobs) - set(self._data.files))
        if strange:
            raise LocalError(
                f"{self._target}: holds {len(strange)} files that {self._source} does not, such as"
                f" {strange[0]}; upload to an empty folder, or to one where this upload was"
                " interrupted"
            )
        return blobs


def is_same(file: LocalFile, blob: Blob, hashes: Hashes | None) -> bool:
    """Whether a blob is a file, as far as can be told without reading the file. Pure.

    Args:
        file: with the manifest's checksum, if it has one.
        blob: of its name.
        hashes: of the file, if it was read already.
    """
    if blob.size != file.size or blob.md5 is None:
        return False
    if hashes is not None:
        return blob.md5 == hashes.md5
    return file.xxh128 is not None and blob.xxh128 == file.xxh128
