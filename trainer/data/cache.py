"""Copies of shards on the node's own disk: the first epoch makes them, later ones read them.

A copy is complete or absent: it is written beside its place, compared with the manifest's hash and
moved. A lock file a shard lets one thread of all the node's ranks copy it while the others wait.
Whatever goes wrong, the shard is read from the data folder: a cache never ends a run.
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
"""Bytes left free on the cache's disk, for what else the node writes there."""

CHUNK = 4 << 20
"""Bytes copied at once: enough for a network's storage, little beside a shard."""

ATTEMPTS = 2
"""How often a shard is copied until what arrives is what the manifest says."""


class OriginError(Exception):
    """A shard that does not arrive from the data folder as the manifest describes it."""


def open_cache(
    cache_dir: str, manifest: Manifest, origin: Path, *, chief: bool
) -> "ShardCache | None":
    """The cache of a data set in a folder; none, with a warning, if nothing can be written there.

    Args:
        cache_dir: folder of caches; each version of a data set has its own in it.
        manifest: the data set.
        origin: its folder.
        chief: whether this process speaks for all ranks of its node.
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
        """The copy of a shard, made first if it is not there; its original if that cannot be."""
        kept = self._folder / shard.file
        if _complete(kept, shard) or self._make(shard, kept):
            return kept
        return self._origin / shard.file

    def check(self, shard: Shard) -> None:
        """Remove the copy of a shard that could not be read, unless it is sound after all."""
        kept = self._folder / shard.file
        try:
            with self._locked(kept):
                if not kept.exists() or _hash(kept) == shard.xxh128:
                    return
                self._refused.add(shard.file)
                kept.unlink()
        except OSError as error:
            self._refused.add(shard.file)
            self._say(f"{kept}: cannot be read or removed ({error.strerror})")
        self._say(f"{kept}: is damaged; from now on the shard is read from {self._origin}")

    def fill(self, shards: Iterable[Shard]) -> None:
        """Copy shards in the background, in this order, until all are there or `close`."""
        self._filler = threading.Thread(
            target=self._fill, args=(tuple(shards),), name="cache", daemon=True
        )
        self._filler.start()

    def close(self) -> None:
        """End copying; what is half done is left out."""
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
            self._say(f"{self._folder}: is filled no further ({type(error).__name__}: {error})")

    def _make(self, shard: Shard, kept: Path) -> bool:
        """Copy a shard unless another thread does; whether the copy is there."""
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
        """Copy, compare and move into place; false if it was to stop.

        Raises:
            OriginError: what arrived is not what the manifest says.
            OSError: it cannot be written.
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
        """Hold the lock of a shard, against other processes and, as the file is opened anew each
        time, other threads.
        """
        kept.parent.mkdir(parents=True, exist_ok=True)
        with kept.with_name(f".{kept.name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _end(self, reason: str) -> None:
        """Take no more shards."""
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
        # A run goes on when its terminal has gone.
        with suppress(OSError):
            print(f"warning: {text}", flush=True)


def _complete(kept: Path, shard: Shard) -> bool:
    """Whether a copy is there; its content was compared before it got this name."""
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


def _hash(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
