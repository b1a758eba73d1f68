"""Local folders that are filled from blobs, and folders whose changes are written back."""

import contextlib
import hashlib
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from azure.core.exceptions import AzureError as StorageError
from azure.core.exceptions import ResourceNotFoundError

from rehearsal.blob_storage.blobs import BlobPath, Blobs

_FileState = tuple[int, int, int]
"""Modification time, size and inode: if one of them differs, the file has changed."""


class InputCache:
    """A local cache of blob contents: each content is stored once and never changed."""

    def __init__(self, blobs: Blobs, folder: Path) -> None:
        """Cache contents below a folder."""
        self._blobs = blobs
        self._folder = folder
        self._lock = threading.Lock()

    def materialize(self, path: BlobPath) -> Path:
        """Return a folder or file with the current content of a path; an empty folder if there is
        none.
        """
        container = self._blobs.container(path.account, path.container)
        prefix = f"{path.path}/" if path.path else ""
        etags = {blob.name: blob.etag for blob in container.list_blobs(name_starts_with=prefix)}
        if not etags and path.path and container.get_blob_client(path.path).exists():
            etags = {path.path: container.get_blob_client(path.path).get_blob_properties().etag}
            prefix = path.path.rpartition("/")[0]
            prefix += "/" if prefix else ""
        content = repr((path, sorted(etags.items())))
        folder = self._folder / hashlib.sha256(content.encode()).hexdigest()[:24]
        with self._lock:
            if not folder.exists():
                partial = folder.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                for name in etags:
                    _download(container.download_blob(name).readinto, partial / name[len(prefix) :])
                _protect(partial)
                partial.rename(folder)
        is_file = len(etags) == 1 and path.path in etags
        return folder / path.path.rpartition("/")[2] if is_file else folder


class FolderMirror:
    """A folder whose changes are written back to a container while a job runs.

    Files are sent in the order in which they were written, and deletions come last: a reader that
    finds a file also finds those that were complete before it. Links and empty folders are ignored.
    """

    def __init__(
        self,
        blobs: Blobs,
        path: BlobPath,
        folder: Path,
        *,
        removes: bool = True,
        listing_seconds: float | None = None,
    ) -> None:
        """Mirror a folder.

        Args:
            blobs: Blob storage.
            path: Where the folder's files are written.
            folder: Local folder; created if it does not exist.
            removes: Whether a file that is deleted is also deleted from the container.
            listing_seconds: Seconds for which a mount remembers the names in the container; None
                for a folder that is not a mount, and never shows what others have written.
        """
        self._container = blobs.container(path.account, path.container)
        self._prefix = f"{path.path}/" if path.path else ""
        self._folder = folder
        self._removes = removes
        self._listing_seconds, self._listed = listing_seconds, time.monotonic()
        self._sent: dict[str, _FileState] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def sent(self) -> list[str]:
        """Names of files that are in the container, without its prefix."""
        return sorted(self._sent)

    def fill(self) -> None:
        """Download the contents of the container."""
        for blob in self._container.list_blobs(name_starts_with=self._prefix):
            path = self._folder / blob.name[len(self._prefix) :]
            _download(self._container.download_blob(blob.name).readinto, path)
        self._sent = dict(self._scan())

    def pull(self) -> None:
        """Show the files that others have written or deleted, if the last listing is old enough.

        Raises:
            StorageError: the container cannot be reached.
        """
        if self._listing_seconds is None or (
            time.monotonic() - self._listed < self._listing_seconds
        ):
            return
        remote = {
            name[len(self._prefix) :]
            for name in self._container.list_blob_names(name_starts_with=self._prefix)
        }
        self._listed = time.monotonic()
        here = dict(self._scan())
        for name in remote - self._sent.keys() - here.keys():
            with contextlib.suppress(ResourceNotFoundError):
                _download(
                    self._container.download_blob(self._prefix + name).readinto,
                    self._folder / name,
                )
        for name in self._sent.keys() - remote:
            if here.get(name) == self._sent[name]:
                (self._folder / name).unlink()
            del self._sent[name]
        self._sent |= {n: s for n, s in self._scan() if n in remote and n not in here}

    def push(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Send changed files.

        Args:
            stopped: Called before each file; nothing more is sent once it returns True.

        Raises:
            StorageError: the container cannot be reached; the next call resumes.
        """
        files = dict(self._scan())
        changed = [name for name, state in files.items() if self._sent.get(name) != state]
        for name in sorted(changed, key=lambda name: files[name][0]):
            if stopped():
                return
            try:
                data = (self._folder / name).read_bytes()
            except FileNotFoundError:
                continue
            self._container.upload_blob(self._prefix + name, data, overwrite=True)
            self._sent[name] = files[name]
        for name in [name for name in self._sent if name not in files and self._removes]:
            if stopped():
                return
            with contextlib.suppress(ResourceNotFoundError):
                self._container.delete_blob(self._prefix + name)
            del self._sent[name]

    def _scan(self) -> Iterator[tuple[str, _FileState]]:
        for path in self._folder.rglob("*"):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                name = path.relative_to(self._folder).as_posix()
                yield name, (status.st_mtime_ns, status.st_size, status.st_ino)


class MirrorThread:
    """A thread that pushes mirrors periodically."""

    def __init__(
        self, mirrors: Sequence[FolderMirror], seconds: float, after: Callable[[], None]
    ) -> None:
        """Start the thread.

        Args:
            mirrors: Mirrors to push.
            seconds: Pause between two pushes.
            after: Called after each push.
        """
        self._mirrors = mirrors
        self._seconds = seconds
        self._after = after
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirrors", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Push a last time, and stop.

        Raises:
            StorageError: the last push failed.
        """
        self._stop.set()
        self._thread.join()
        for mirror in self._mirrors:
            mirror.push(self._abandoned.is_set)
        self._after()

    def abandon(self) -> None:
        """Stop without sending anything more, because the node is lost."""
        self._abandoned.set()
        self._stop.set()

    def join(self) -> None:
        """Wait for the push that is under way."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                for mirror in self._mirrors:
                    mirror.pull()
                    mirror.push(self._abandoned.is_set)
                self._after()
            except (StorageError, OSError):
                # An outage of storage may end; if it does not, the last push reports it.
                continue


def _download(read_into: Callable[..., int], path: Path) -> None:
    """Write a download to a file, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        read_into(file)


def _protect(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
