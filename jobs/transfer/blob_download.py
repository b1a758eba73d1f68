"""Download a blob to a file: resumable, verified, and never overwriting a user's own file."""

import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient

from common.errors import UserError
from jobs.azure.storage import Blob
from jobs.transfer.local_files import LocalError
from jobs.transfer.progress import Progress

RECORD: Final = ".downloaded.json"
"""Name of the record in the download folder, which distinguishes its files from a user's own. Each
line is a JSON object of states by file, and is appended before the file gets its name; so a
download that is killed knows its files again."""
LOCK: Final = ".downloaded.lock"
"""Name of the lock file in the download folder; held by the process that downloads into it."""
CHANGES: Final = 5
"""How often a blob may change while it is read, as logs of a running job do."""
_MISMATCH: Final = "MD5 mismatch"
"""Text of azure-storage-blob's error for a damaged response."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other downloads; create the folder if necessary.

    Raises:
        LocalError: Another download holds the lock, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise LocalError(f"{folder}: cannot be written ({error.strerror})") from error
    # The system releases the lock when the process ends, for whatever reason.
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(
                f"{folder}: another download is writing to this folder; wait for its end, or pass"
                " another folder with --to"
            ) from error
        yield


class DiskFullError(LocalError):
    """The disk is full, so that no other file can be written either."""


def not_written(path: Path, error: OSError) -> LocalError:
    """Return the error for a file that the system refuses to write, with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(
            f"{path}: cannot be written, as the disk is full ({error.strerror}); make room, or pass"
            " a folder on another disk with --to, and run the same command again"
        )
    return LocalError(f"{path}: cannot be written ({error.strerror})")


class DownloadRecord:
    """Record of the files that were downloaded into a folder; shared by many threads.

    Raises:
        LocalError: The record cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._path, self._lock = folder, folder / RECORD, threading.Lock()
        self._etags: dict[tuple[str, int, int], str] = {}
        """Etags by name, bytes and modification time of a file. A download that was killed may have
        recorded a state that its file did not get."""
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise LocalError(f"{self._path}: cannot be read ({error.strerror})") from error
        for line in lines:
            # A download that was killed may have left half a line: that file is compared again.
            with suppress(ValueError, TypeError, AttributeError, KeyError):
                for name, state in json.loads(line).items():
                    self._etags[name, state["size"], state["modified_ns"]] = state["etag"]

    def etag(self, path: Path) -> str | None:
        """Return the etag of the blob that a file is an unchanged download of, or None."""
        return self._etags.get(self._state(path, path))

    def add(self, path: Path, content: Path, etag: str) -> None:
        """Record a file that is complete, before it gets its name.

        Args:
            path: Its future path.
            content: Its current path.
            etag: Etag of its blob.

        Raises:
            LocalError: The record cannot be written.
        """
        state = name, size, modified_ns = self._state(path, content)
        line = json.dumps({name: {"etag": etag, "size": size, "modified_ns": modified_ns}})
        with self._lock:
            if self._etags.get(state) == etag:
                return
            try:
                with self._path.open("a") as file:
                    # The last line may be half a line.
                    file.write(f"\n{line}\n")
            except OSError as error:
                raise not_written(self._path, error) from error
            self._etags[state] = etag

    def _state(self, path: Path, content: Path) -> tuple[str, int, int]:
        status = content.stat()
        name = path.relative_to(self._folder).as_posix()
        return name, status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class BlobDownloader:
    """Downloads blobs; shared by many threads."""

    progress: Progress
    """Counts the downloaded bytes."""
    record: DownloadRecord
    """Record of earlier downloads, which is updated."""
    overwrite: bool
    """Whether to replace files that were not downloaded, or were changed since."""

    def fetch(self, client: ContainerClient, address: str, blob: Blob, target: Path) -> bool:
        """Download a blob unless its file is up to date.

        Args:
            client: Client of the container.
            address: Name of the blob in the container.
            blob: Blob as listed.
            target: Path of the file.

        Returns:
            Whether the blob was downloaded.

        Raises:
            DiskFullError: The disk is full.
            LocalError: The file exists and is not the download's, or cannot be written.
            UserError: The downloaded content differs from the stored blob.
            StoppedError: The work was stopped.
            AzureError: The container refused the request.
        """
        try:
            if self._is_current(blob, target):
                self.progress.skipped(blob.size)
                self.record.add(target, target, blob.etag)
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            self._write(client.get_blob_client(address), blob, target)
        except ResourceNotFoundError as error:
            raise UserError(
                f"{address}: was deleted during the download; run the same command again"
            ) from error
        except OSError as error:
            raise not_written(target, error) from error
        return True

    def _is_current(self, blob: Blob, target: Path) -> bool:
        """Whether the file is the blob's content; it is replaced if it is an older download."""
        if target.is_symlink() or target.is_dir():
            raise LocalError(f"{target}: is not a regular file; move it away")
        if not target.exists():
            return False
        etag = self.record.etag(target)
        if etag is not None:
            return etag == blob.etag
        # A file of the user, or one whose record was lost.
        same_size = blob.md5 is not None and target.stat().st_size == blob.size
        if same_size and _md5(target) == blob.md5:
            return True
        if not self.overwrite:
            raise LocalError(
                f"{target}: differs from the run's file, and was not downloaded or was changed"
                " since; move it away, or pass --overwrite True"
            )
        return False

    def _write(self, client: BlobClient, blob: Blob, target: Path) -> None:
        """Download a blob to a file, from its beginning whenever it changes."""
        for _ in range(CHANGES):
            try:
                self._complete(client, blob, target)
            except ResourceModifiedError:
                blob = Blob.of(blob.name, client.get_blob_properties())
            else:
                return
        raise UserError(
            f"{client.blob_name}: changed {CHANGES} times during the download; try again when its"
            " job has ended"
        )

    def _complete(self, client: BlobClient, blob: Blob, target: Path) -> None:
        version = hashlib.sha256(blob.etag.encode()).hexdigest()[:8]
        partial = target.with_name(f".{target.name}.{version}.partial")
        partial.touch()
        with partial.open("r+b") as file:
            offset = file.seek(0, os.SEEK_END)
            if offset > blob.size:
                offset = file.truncate(file.seek(0))
            self.progress.skipped(offset)
            for content in _rest(client, blob, offset):
                file.write(content)
                self.progress.moved(len(content))
        size = partial.stat().st_size
        if size != blob.size:
            partial.unlink()
            raise UserError(
                f"{target}: {size} bytes were written, but the blob has {blob.size}; check whether"
                " another process writes to this folder, and try again"
            )
        if blob.md5 is not None and _md5(partial) != blob.md5:
            partial.unlink()
            raise _damaged(client)
        self.record.add(target, partial, blob.etag)
        partial.replace(target)
        for older in target.parent.glob(f".{escape(target.name)}.????????.partial"):
            older.unlink(missing_ok=True)


def _rest(client: BlobClient, blob: Blob, offset: int) -> Iterator[bytes]:
    """Download the content of a blob from an offset in verified ranges, while it is unchanged."""
    if offset == blob.size:
        return
    try:
        yield from client.download_blob(
            offset,
            validate_content=True,
            etag=blob.etag,
            match_condition=MatchConditions.IfNotModified,
        ).chunks()
    except AzureError as error:
        if _MISMATCH in str(error):
            raise _damaged(client) from error
        raise


def targets(folder: Path, blobs: Mapping[str, Blob]) -> dict[str, Path]:
    """Return the local file of each blob, by the blob's name.

    Raises:
        UserError: A name would lead out of the folder.
    """
    paths = {}
    for name in blobs:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in name:
            raise UserError(f"blob {name!r}: its name is not a valid file name; remove the blob")
        paths[name] = folder.joinpath(*parts)
    return paths


def _damaged(client: BlobClient) -> UserError:
    return UserError(
        f"{client.blob_name}: the MD5 of the download differs from the blob's; try again. If the"
        " error persists, the blob is damaged"
    )


def _md5(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
