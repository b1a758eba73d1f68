"""Download a blob to a file: resumable, verified, and never overwriting a user's own file."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path
from typing import Final, Literal, Self

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceModifiedError
from azure.storage.blob import BlobClient, ContainerClient

from common.errors import UserError
from common.files import write_atomically
from jobs.azure.storage import Blob
from jobs.transfer.local_files import LocalError
from jobs.transfer.progress import Progress

RECORD: Final = ".downloaded.json"
"""Name of the record in the download folder: the state of each downloaded file, to distinguish it
from a user's own file."""
LOCK: Final = ".downloaded.lock"
"""Name of the lock file in the download folder; held by the process that downloads into it."""
CHANGES: Final = 5
"""How often a blob may change while it is read, as logs of a running job do."""


@dataclass(frozen=True)
class FileState:
    """State of a file after its download."""

    etag: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path, etag: str) -> Self:
        status = path.stat()
        return cls(etag, status.st_size, status.st_mtime_ns)


_MISMATCH: Final = "MD5 mismatch"
"""Text of azure-storage-blob's error for a damaged response."""

Action = Literal["fetch", "keep", "compare", "refuse"]


def choose_action(blob: Blob, left: FileState | None, now: FileState | None) -> Action:
    """Decide whether a file is downloaded. Pure.

    Args:
        blob: Blob to download.
        left: State of the file after the last download, or None if there was none.
        now: Current state of the file, with the etag of `left`; None if the file does not exist.
    """
    if now is None:
        return "fetch"
    if left == now:
        return "keep" if left.etag == blob.etag else "fetch"
    return "compare" if now.size == blob.size and blob.md5 is not None else "refuse"


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


class DownloadRecord:
    """Record of the files that were downloaded into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / RECORD
        self.files: dict[str, FileState] = {}
        try:
            entries = json.loads(self._path.read_text())
            self.files = {name: FileState(**values) for name, values in entries.items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise LocalError(
                f"{self._path}: cannot be read ({error}); delete it, and existing files are"
                " compared with storage again"
            ) from error

    def key(self, path: Path) -> str:
        """Return the key of a file: its path relative to the folder."""
        return path.relative_to(self._folder).as_posix()

    def save(self) -> None:
        """Write the record atomically."""
        text = json.dumps({name: asdict(state) for name, state in sorted(self.files.items())})
        write_atomically(self._path, text + "\n")


class BlobDownloader:
    """Downloads blobs; shared by many threads.

    Args:
        progress: Counts the downloaded bytes.
        record: Record of earlier downloads, which is updated.
        overwrite: Whether to replace files that were not downloaded, or were changed since.
    """

    def __init__(self, progress: Progress, record: DownloadRecord, *, overwrite: bool) -> None:
        self._progress, self._record, self._overwrite = progress, record, overwrite

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
            LocalError: The file exists and is not the download's, or cannot be written.
            UserError: The downloaded content differs from the stored blob.
            StoppedError: The work was stopped.
            AzureError: The container refused the request.
        """
        try:
            is_new = not self._is_there(blob, target)
            if is_new:
                target.parent.mkdir(parents=True, exist_ok=True)
                blob = self._write(client.get_blob_client(address), blob, target)
            else:
                self._progress.kept(blob.size)
            self._record.files[self._record.key(target)] = FileState.of(target, blob.etag)
        except OSError as error:
            raise LocalError(f"{target}: cannot be written ({error.strerror})") from error
        return is_new

    def _is_there(self, blob: Blob, target: Path) -> bool:
        left = self._record.files.get(self._record.key(target))
        now = None
        if target.is_symlink() or target.is_dir():
            raise LocalError(f"{target}: is not a regular file; move it away")
        if target.exists():
            now = FileState.of(target, left.etag if left else "")
        action = choose_action(blob, left, now)
        if action == "compare":
            action = "keep" if _md5(target) == blob.md5 else "refuse"
        if action == "refuse" and not self._overwrite:
            raise LocalError(
                f"{target}: differs from the run's file, and was not downloaded or was changed"
                " since; move it away, or pass --overwrite True"
            )
        return action == "keep"

    def _write(self, client: BlobClient, blob: Blob, target: Path) -> Blob:
        """Download a blob to a file; return it as it was downloaded."""
        for _ in range(CHANGES):
            try:
                self._complete(client, blob, target)
            except ResourceModifiedError:
                blob = Blob.of(blob.name, client.get_blob_properties())
            else:
                return blob
        raise UserError(
            f"{client.blob_name}: changed {CHANGES} times during the download; try again when its"
            " job has ended"
        )

    def _complete(self, client: BlobClient, blob: Blob, target: Path) -> None:
        partial = target.with_name(f".{target.name}.{_short(blob.etag)}.partial")
        partial.touch()
        with partial.open("r+b") as file:
            if file.seek(0, os.SEEK_END) > blob.size:
                file.truncate(file.seek(0))
            self._progress.kept(file.tell())
            for content in _rest(client, blob, file.tell()):
                file.write(content)
                self._progress.moved(len(content))
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


def _short(etag: str) -> str:
    return hashlib.sha256(etag.encode()).hexdigest()[:8]
