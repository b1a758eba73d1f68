"""One blob into one file: resumed where it ended, verified, and never over someone's own file."""

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
from azure.storage.blob import ContainerClient

from common.errors import UserError
from common.files import write_atomically
from jobs.azure.storage import CHECKED_CHUNK, Blob
from jobs.retry import Retry
from jobs.transfer.local_files import LocalError
from jobs.transfer.progress import Progress

RECORD: Final = ".downloaded.json"
"""Beside what was downloaded: how each file was left, to tell it from a person's own."""
LOCK: Final = ".downloaded.lock"
"""Beside it: is held by the process that downloads into the folder."""
CHANGES: Final = 5
"""Times that a blob may change while it is read; logs of a job that runs do."""


@dataclass(frozen=True)
class FileState:
    """A file as a download left it."""

    etag: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path, etag: str) -> Self:
        status = path.stat()
        return cls(etag, status.st_size, status.st_mtime_ns)


_MISMATCH: Final = "MD5 mismatch"
"""What azure-storage-blob says of a blob that it reads whole."""

Action = Literal["fetch", "keep", "compare", "refuse"]


def choose_action(blob: Blob, left: FileState | None, now: FileState | None) -> Action:
    """What to do about a file. Pure.

    Args:
        blob: to download.
        left: the file as the last download left it, if it did.
        now: the file as it is, with the etag of `left`; None if it is not there.
    """
    if now is None:
        return "fetch"
    if left == now:
        return "keep" if left.etag == blob.etag else "fetch"
    return "compare" if now.size == blob.size and blob.md5 is not None else "refuse"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other downloads out of a folder, which is made if it is not there.

    Raises:
        LocalError: there is one, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise LocalError(f"{folder}: cannot be written ({error.strerror})") from error
    # The system lets go of it when the process ends, however that is.
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(
                f"{folder}: another download fills this folder; wait for its end, or give another"
                " folder by --to"
            ) from error
        yield


class DownloadRecord:
    """What was downloaded into a folder."""

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
                f"{self._path}: cannot be read ({error}); remove it, and files that are there are"
                " compared with storage's"
            ) from error

    def key(self, path: Path) -> str:
        """What a file of the folder is called here."""
        return path.relative_to(self._folder).as_posix()

    def save(self) -> None:
        """Write it, whole or not at all."""
        text = json.dumps({name: asdict(state) for name, state in sorted(self.files.items())})
        write_atomically(self._path, text + "\n")


class BlobDownloader:
    """Downloads blobs, for many threads.

    Args:
        retry: repeats requests.
        progress: is told what came.
        record: of what was downloaded before; is kept up to date.
        overwrite: whether a file that is not ours may be replaced.
    """

    def __init__(
        self, retry: Retry, progress: Progress, record: DownloadRecord, *, overwrite: bool
    ) -> None:
        self._retry, self._progress = retry, progress
        self._record, self._overwrite = record, overwrite

    def fetch(self, client: ContainerClient, address: str, blob: Blob, target: Path) -> bool:
        """Download a blob, unless its file is there.

        Args:
            client: of its container.
            address: its name in the container.
            blob: as it was listed.
            target: the file.

        Returns:
            Whether it was downloaded now.

        Raises:
            LocalError: a file is there that is not ours, or it cannot be written.
            UserError: what came is not what was stored.
            StoppedError: the work was stopped.
            AzureError: the container refuses it.
        """
        try:
            if self._is_there(blob, target):
                self._record.files[self._record.key(target)] = FileState.of(target, blob.etag)
                self._progress.kept(blob.size)
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            etag = self._write(client, address, blob, target)
            self._record.files[self._record.key(target)] = FileState.of(target, etag)
        except OSError as error:
            raise LocalError(f"{target}: cannot be written ({error.strerror})") from error
        return True

    def _is_there(self, blob: Blob, target: Path) -> bool:
        left = self._record.files.get(self._record.key(target))
        now = None
        if target.is_symlink() or target.is_dir():
            raise LocalError(f"{target}: is no file; move it away")
        if target.exists():
            now = FileState.of(target, left.etag if left else "")
        action = choose_action(blob, left, now)
        if action == "compare":
            action = "keep" if _md5(target) == blob.md5 else "refuse"
        if action == "refuse" and not self._overwrite:
            raise LocalError(
                f"{target}: is another file than the run's, and was not downloaded or was changed"
                " since; move it away, or give --overwrite True"
            )
        return action == "keep"

    def _write(self, client: ContainerClient, address: str, blob: Blob, target: Path) -> str:
        for _ in range(CHANGES):
            try:
                self._complete(client, address, blob, target)
            except ResourceModifiedError:
                properties = self._retry.call(client.get_blob_client(address).get_blob_properties)
                md5 = properties.content_settings.content_md5
                blob = Blob(
                    name=blob.name,
                    size=int(properties.size),
                    md5=bytes(md5) if md5 else None,
                    xxh128=None,
                    etag=str(properties.etag),
                    modified=properties.last_modified.timestamp(),
                )
                continue
            return blob.etag
        raise UserError(
            f"{address}: changed {CHANGES} times while it was read; try again when its job has"
            " ended"
        )

    def _complete(self, client: ContainerClient, address: str, blob: Blob, target: Path) -> None:
        partial = target.with_name(f".{target.name}.{_short(blob.etag)}.partial")
        partial.touch()
        with partial.open("r+b") as file:
            offset = file.seek(0, os.SEEK_END)
            if offset > blob.size:
                file.truncate(0)
                offset = 0
            self._progress.kept(offset)
            while offset < blob.size:
                content = self._range(client, address, blob, offset)
                # Where it belongs, whoever else has written meanwhile.
                file.seek(offset)
                file.write(content)
                self._progress.moved(len(content))
                offset += len(content)
        size = partial.stat().st_size
        if size != blob.size:
            partial.unlink()
            raise UserError(
                f"{target}: {size} bytes were written, but the blob has {blob.size}; does something"
                " else write into this folder? Try again"
            )
        if blob.md5 is not None and _md5(partial) != blob.md5:
            partial.unlink()
            raise _damaged(address)
        partial.replace(target)
        for older in target.parent.glob(f".{escape(target.name)}.????????.partial"):
            older.unlink(missing_ok=True)

    def _range(self, client: ContainerClient, address: str, blob: Blob, offset: int) -> bytes:
        length = min(CHECKED_CHUNK, blob.size - offset)

        def request() -> bytes:
            stream = client.download_blob(
                address,
                offset=offset,
                length=length,
                validate_content=True,
                etag=blob.etag,
                match_condition=MatchConditions.IfNotModified,
            )
            return bytes(stream.readall())

        try:
            return self._retry.call(request)
        except AzureError as error:
            if _MISMATCH in str(error):
                raise _damaged(address) from error
            raise


def targets(folder: Path, blobs: Mapping[str, Blob]) -> dict[str, Path]:
    """Files for blobs, by the blobs' names.

    Raises:
        UserError: a name leads out of the folder.
    """
    paths = {}
    for name in blobs:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in name:
            raise UserError(f"{name!r}: is a blob whose name is no file's; remove it from storage")
        paths[name] = folder.joinpath(*parts)
    return paths


def _damaged(address: str) -> UserError:
    return UserError(
        f"{address}: what came is not what its writer stored (another MD5); try again, and if it"
        " stays so, the blob is damaged"
    )


def _md5(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()


def _short(etag: str) -> str:
    return hashlib.sha256(etag.encode()).hexdigest()[:8]
