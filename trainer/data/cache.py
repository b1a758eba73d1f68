"""Copies of shards on the node's own disk: the first epoch writes them, later epochs read them.

A copy is complete or absent: it is written under another name, compared with the manifest's hash
and renamed. One lock file per shard lets a single thread of all ranks of the node copy it while the
others wait. After any error the shard is read from the data folder: the cache never ends a run.
"""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from trainer.data.manifest import Manifest, Shard

MARGIN = 1 << 30
"""Bytes to leave free on the cache's disk for other files of the node."""

CHUNK = 4 << 20
"""Bytes copied at once: enough for storage behind a network, small compared with a shard."""

ATTEMPTS = 2
"""Most attempts to copy a shard whose copy does not match the manifest."""


class OriginError(Exception):
    """A shard whose copy from the data folder does not match the manifest."""


def open_cache(
    cache_dir: str, manifest: Manifest, origin: Path, *, chief: bool
) -> "ShardCache | None":
    """Open the cache of a data set. If the folder cannot be written, warn and return None.

    Args:
        cache_dir: Folder of caches, in which each version of a data set has a folder.
        manifest: Manifest of the data set.
        origin: Folder of the data set.
        chief: Whether this process prints warnings for all ranks of its node.
    """
    folder = Path(cache_dir) / manifest.version
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        if chief:
            print(
                f"warning: --data.cache-dir: {folder} cannot be written ({error.strerror}); the"
                f" data are read from {origin}",
                flush=True,
            )
        return None
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    return ShardCache(folder, origin, shards, chief=chief)


class ShardCache:
    """The copies of one data set's shards on this node. Safe to use from any thread."""

    def __init__(
        self, folder: Path, origin: Path, shards: Iterable[Shard], *, chief: bool = True
    ) -> None:
        self._folder, self._origin, self._shards = folder, origin, tuple(shards)
        self._chief = chief
        self._refused: set[str] = set()
        self._full = False
        self._stop = threading.Event()
        self._filler: threading.Thread | None = None

    def path(self, shard: Shard) -> Path:
        """Return the copy of a shard, writing it first if needed, or its original if that fails."""
        kept = self._folder / shard.file
        if _complete(kept, shard) or self._make(shard, kept):
            return kept
        return self._origin / shard.file

    def check(self, shard: Shard) -> None:
        """Verify the copy of a shard that could not be read, and remove it if it is damaged."""
        kept = self._folder / shard.file
        try:
            with self._locked(kept):
                if not kept.exists() or file_hash(kept) == shard.xxh128:
                    return
                self._refused.add(shard.file)
                kept.unlink()
        except OSError as error:
            self._refused.add(shard.file)
            self._say(f"{kept}: cannot be read or removed ({error.strerror})")
        self._say(f"{kept}: is damaged; from now on the shard is read from {self._origin}")

    def fill(self, shards: Iterable[Shard]) -> None:
        """Copy shards in the background, in this order, until all are copied or `close`."""
        self._filler = threading.Thread(
            target=self._fill, args=(tuple(shards),), name="cache", daemon=True
        )
        self._filler.start()

    def close(self) -> None:
        """Stop copying, and discard partial copies."""
        self._stop.set()
        if self._filler is not None:
            self._filler.join(timeout=10)

    def _fill(self, shards: Iterable[Shard]) -> None:
        try:
            for shard in shards:
                if self._stop.is_set() or self._full:
                    return
                self.path(shard)
        except Exception as error:  # noqa: BLE001 an exception here would be lost with its thread
            self._say(f"{self._folder}: filling has stopped ({type(error).__name__}: {error})")

    def _make(self, shard: Shard, kept: Path) -> bool:
        """Copy a shard unless another thread does; return whether the copy exists."""
        if self._full or self._stop.is_set() or shard.file in self._refused:
            return False
        try:
            with self._locked(kept):
                if _complete(kept, shard):
                    return True
                if kept.exists():
                    self._say(
                        f"{kept}: has {kept.stat().st_size} bytes, not {shard.bytes}; copying it"
                        " again"
                    )
                    kept.unlink()
                return self._attempt(shard, kept)
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            self._end("is full" if full else f"cannot be written ({error.strerror})")
            return False

    def _attempt(self, shard: Shard, kept: Path) -> bool:
        reason = ""
        for _ in range(ATTEMPTS):
            if shutil.disk_usage(self._folder).free < shard.bytes + MARGIN:
                self._end("is full")
                return False
            try:
                return self._copy(shard, kept)
            except OriginError as error:
                reason = str(error)
        self._refused.add(shard.file)
        if self._chief:
            self._say(
                f"{self._origin / shard.file}: {reason}, also when copied again; the shard is not"
                " kept in the cache"
            )
        return False

    def _copy(self, shard: Shard, kept: Path) -> bool:
        """Copy, compare and rename; return False if `close` was called meanwhile.

        Raises:
            OriginError: The copy does not match the manifest.
            OSError: The copy cannot be written.
        """
        partial = kept.with_name(f"{kept.name}.partial")
        digest = xxhash.xxh3_128()
        try:
            with partial.open("wb") as file:
                for chunk in _chunks(self._origin / shard.file):
                    if self._stop.is_set():
                        return False
                    file.write(chunk)
                    digest.update(chunk)
                if file.tell() != shard.bytes:
                    raise OriginError(f"has {file.tell()} bytes, not {shard.bytes}")
                if digest.hexdigest() != shard.xxh128:
                    raise OriginError("does not have the manifest's hash")
                file.flush()
                os.fsync(file.fileno())
            partial.rename(kept)
        finally:
            partial.unlink(missing_ok=True)
        return True

    @contextmanager
    def _locked(self, kept: Path) -> Iterator[None]:
        """Hold the lock of a shard, against other processes and, because the file is opened anew
        each time, other threads.
        """
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.with_name(f".{kept.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _end(self, reason: str) -> None:
        """Stop adding shards, and say why."""
        if self._full:
            return
        self._full = True
        if self._chief:
            count = sum(_complete(self._folder / shard.file, shard) for shard in self._shards)
            self._say(
                f"the cache in {self._folder} {reason}: {count} of {len(self._shards)} shards are"
                f" kept, the others are read from {self._origin}"
            )

    @staticmethod
    def _say(text: str) -> None:
        # A run continues when its terminal is gone.
        with suppress(OSError):
            print(f"warning: {text}", flush=True)


def _complete(kept: Path, shard: Shard) -> bool:
    """Return whether a copy exists; its content was compared before it got this name."""
    try:
        return kept.stat().st_size == shard.bytes
    except OSError:
        return False


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise OriginError(f"cannot be read ({error.strerror})") from error


def file_hash(path: Path) -> str:
    """Return XXH3-128 of a whole file, in hexadecimal."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
