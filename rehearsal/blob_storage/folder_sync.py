"""Folders of a job and the blobs that they stand for."""

import contextlib
import hashlib
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from azure.core.exceptions import AzureError as StorageError
from azure.core.exceptions import ResourceNotFoundError

from rehearsal.blob_storage.blobs import Blobs, Place

_Seen = tuple[int, int, int]


class Cache:
    """Inputs on this machine: each content once, never changed."""

    def __init__(self, blobs: Blobs, folder: Path) -> None:
        """Keep inputs below a folder."""
        self._blobs = blobs
        self._folder = folder
        self._lock = threading.Lock()

    def materialize(self, place: Place) -> Path:
        """The folder or file that a place holds now; an empty folder if it holds nothing."""
        container = self._blobs.container(place.account, place.container)
        prefix = f"{place.path}/" if place.path else ""
        found = {blob.name: blob.etag for blob in container.list_blobs(name_starts_with=prefix)}
        if not found and place.path and container.get_blob_client(place.path).exists():
            found = {place.path: container.get_blob_client(place.path).get_blob_properties().etag}
            prefix = place.path.rpartition("/")[0]
            prefix += "/" if prefix else ""
        text = repr((place, sorted(found.items())))
        folder = self._folder / hashlib.sha256(text.encode()).hexdigest()[:24]
        with self._lock:
            if not folder.exists():
                partial = folder.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                for name in found:
                    fetch(container.download_blob(name).readinto, partial / name[len(prefix) :])
                _protect(partial)
                partial.rename(folder)
        is_file = len(found) == 1 and place.path in found
        return folder / place.path.rpartition("/")[2] if is_file else folder


class Mirror:
    """A folder whose changes are written back to a container while a job runs.

    Files that were written first are sent first, and what is gone is removed last: whoever finds a
    file finds also what was complete before it. Links and empty folders are not kept.
    """

    def __init__(self, blobs: Blobs, place: Place, folder: Path, *, removes: bool = True) -> None:
        """Mirror a folder.

        Args:
            blobs: blob storage.
            place: where the folder's files go.
            folder: on this machine; made if it is not there.
            removes: whether a file that is removed is also removed from the container.
        """
        self._container = blobs.container(place.account, place.container)
        self._prefix = f"{place.path}/" if place.path else ""
        self._folder = folder
        self._removes = removes
        self._seen: dict[str, _Seen] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def sent(self) -> list[str]:
        """Names of files that are in the container, without its prefix."""
        return sorted(self._seen)

    def fill(self) -> None:
        """Bring what the container holds."""
        for blob in self._container.list_blobs(name_starts_with=self._prefix):
            path = self._folder / blob.name[len(self._prefix) :]
            fetch(self._container.download_blob(blob.name).readinto, path)
        self._seen = dict(self._scan())

    def push(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Send what has changed.

        Args:
            stopped: asked before each file; nothing more is sent once it says so.

        Raises:
            StorageError: the container cannot be reached; the next call goes on.
        """
        now = dict(self._scan())
        changed = [name for name, seen in now.items() if self._seen.get(name) != seen]
        for name in sorted(changed, key=lambda name: now[name][0]):
            if stopped():
                return
            try:
                data = (self._folder / name).read_bytes()
            except FileNotFoundError:
                continue
            self._container.upload_blob(self._prefix + name, data, overwrite=True)
            self._seen[name] = now[name]
        for name in [name for name in self._seen if name not in now and self._removes]:
            if stopped():
                return
            with contextlib.suppress(ResourceNotFoundError):
                self._container.delete_blob(self._prefix + name)
            del self._seen[name]

    def _scan(self) -> Iterator[tuple[str, _Seen]]:
        for path in self._folder.rglob("*"):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                name = path.relative_to(self._folder).as_posix()
                yield name, (status.st_mtime_ns, status.st_size, status.st_ino)


class Writer:
    """Pushes mirrors again and again from a thread of its own."""

    def __init__(self, mirrors: list[Mirror], seconds: float, after: Callable[[], None]) -> None:
        """Start.

        Args:
            mirrors: to push.
            seconds: between two pushes.
            after: called after each.
        """
        self._mirrors = mirrors
        self._seconds = seconds
        self._after = after
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Push a last time, and stop.

        Raises:
            StorageError: the last push failed.
        """
        self._stop.set()
        self._thread.join()
        for mirror in self._mirrors:
            mirror.push(self._lost.is_set)
        self._after()

    def lose(self) -> None:
        """Send nothing more: the node is gone."""
        self._lost.set()
        self._stop.set()

    def join(self) -> None:
        """Wait for what was being sent."""
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                for mirror in self._mirrors:
                    mirror.push(self._lost.is_set)
                self._after()
            except (StorageError, OSError):
                # Storage that is away comes back; the last push tells if it does not.
                continue


def fetch(read_into: Callable[..., int], path: Path) -> None:
    """Write a download to a file, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        read_into(file)


def _protect(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
