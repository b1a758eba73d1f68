"""Make a folder in a container equal to another folder: shards with a manifest, or raw files.

The container is listed until no file is missing, and the manifest is uploaded last: a data set that
has one is complete. Files that exist with the same size and hash are not uploaded again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.text import listing, plural
from jobs.azure.storage import Blob, listed
from jobs.errors import RequestError
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.local_files import LocalError, LocalFile, LocalFolder
from jobs.transfer.parallel import for_each

ROUNDS: Final = 8
"""Rounds of listing the container and uploading missing files; two suffice unless it loses
uploads."""


@dataclass
class FolderUpload:
    """Upload of one folder."""

    data: LocalFolder
    """Files to upload."""
    source: str
    """Where they are, for messages."""
    target: str
    """Folder in the container as the user gave it, such as prepared/imagenet."""
    uploader: BlobUploader
    """Uploads single files to that folder."""
    md5s: dict[str, bytes] = field(default_factory=dict)
    """MD5 of all files that are known to be in the container, by name."""
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

    def run(self) -> None:
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
                if not self._exists(file, blobs.get(name))
            ]
            self.new.difference_update(file.name for file in lacking)
            next_files = [file for file in lacking if file.name != self.data.last] or lacking
            if not next_files:
                return
            self._send(next_files, blobs)
        raise RequestError(
            f"{self.target}: after {ROUNDS} rounds its files still differ from the uploaded ones;"
            " check whether another program writes to this folder"
        )

    def _send(self, files: Sequence[LocalFile], blobs: Mapping[str, Blob]) -> None:
        uploader, problems = self.uploader, list[str]()

        def work(file: LocalFile) -> None:
            try:
                md5, is_new = uploader.send(file, blobs.get(file.name))
            except LocalError as error:
                problems.append(str(error))
                return
            if file.name not in self.md5s:
                uploader.progress.file()
            self.md5s[file.name] = md5
            if is_new:
                self.new.add(file.name)

        for_each(files, work, uploader.threads, uploader.retry)
        if problems:
            raise LocalError(
                f"{self.source}: some files could not be uploaded:\n{listing(problems)}"
            )

    def _exists(self, file: LocalFile, blob: Blob | None) -> bool:
        if blob is None or not is_same(file, blob, self.md5s.get(file.name)):
            return False
        if file.name not in self.md5s:
            assert blob.md5 is not None
            self.md5s[file.name] = blob.md5
            self.uploader.progress.skipped(blob.size)
            self.uploader.progress.file()
        return True

    def _list(self) -> dict[str, Blob]:
        blobs = listed(self.uploader.client, self.uploader.folder)
        strange = sorted(set(blobs) - set(self.data.files))
        if strange:
            raise LocalError(
                f"{self.target}: contains {plural(len(strange), 'file')} that {self.source} does"
                f" not, such as {strange[0]}; upload to an empty folder, or to one where this"
                " upload was interrupted"
            )
        return blobs


def is_same(file: LocalFile, blob: Blob, md5: bytes | None) -> bool:
    """Whether a blob is known to equal a file without reading the file. Pure.

    Args:
        file: File, with its checksum in the manifest if there is one.
        blob: Blob of the file's name.
        md5: MD5 of the file, or None if it was not read yet.
    """
    if blob.size != file.size or blob.md5 is None:
        return False
    if md5 is not None:
        return blob.md5 == md5
    return file.xxh128 is not None and blob.xxh128 == file.xxh128
