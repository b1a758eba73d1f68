"""All checkpoints of a run, possibly written, or still being written, by several attempts."""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from trainer.checkpoints import format as content
from trainer.checkpoints.filesystem import Files, LocalFiles
from trainer.checkpoints.format import Array, Checkpoint, nbytes
from trainer.checkpoints.names import (
    Key,
    checkpoint_name,
    highest_attempt,
    key_of,
    marker_name,
)
from trainer.checkpoints.retention_policy import Entry, best, to_delete
from trainer.errors import CheckpointError, SupersededError, warn

_INDEX_SCHEMA = 1
INDEX = "index.json"
_SCRATCH = ".index.json.partial"


class CheckpointFolder:
    """The folder `checkpoints` of a run.

    An attempt claims a number before it looks for a checkpoint to resume from. From then on an
    earlier attempt that is still alive, perhaps on a node considered lost, neither writes nor
    deletes: before each change it looks for traces of later attempts. This needs neither locks nor
    renames, which a mount of an object store does not have.
    """

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.folder = folder
        self._files = files or LocalFiles()
        self._verified: dict[Path, Checkpoint | Entry] = {}
        self._claimed: tuple[int, bytes] | None = None

    def claim(self) -> int:
        """Begin an attempt; earlier ones write and delete nothing from now on.

        Returns:
            The number of the attempt, counted from 1.
        """
        self._files.make_folder(self.folder)
        token = uuid4().hex.encode()
        for attempt in count(highest_attempt(self._names()) + 1):
            with suppress(FileExistsError):
                self._files.write(self.folder / marker_name(attempt), [token])
                break
        self._claimed = attempt, token
        return attempt

    def save(
        self,
        step: int,
        tensors: Mapping[str, Array],
        meta: Mapping[str, Any],
        attempt: int | None = None,
    ) -> Checkpoint:
        """Write a checkpoint; return when it is on disk.

        A valid checkpoint of this step and attempt is not written again, because its state is the
        same: a roll-back continues from the newest valid one, so no later step has one.

        Args:
            step: Steps done.
            tensors: Copies of the state, never views of live variables.
            meta: Plain data to store with the tensors.
            attempt: Attempt that writes; None is the claimed one, or the latest that left a trace.

        Raises:
            OSError: The checkpoint cannot be written; it is removed, and others are unchanged.
            SupersededError: A later attempt has begun; nothing more is written or deleted.
        """
        attempt = attempt or self._attempt()
        key = Key(attempt, step)
        path = self.folder / checkpoint_name(key)
        self._files.make_folder(self.folder)
        if path.name in self._names_of(attempt):
            self._verified.pop(path, None)
            existing = self._look(path)
            if isinstance(existing, Checkpoint):
                return existing
            content.remove(self._files, path)
        self._refuse_if_full(path, nbytes(tensors))
        try:
            saved, done = content.write_data(self._files, path, key, tensors, meta)
            self._names_of(attempt)
            self._files.write(path / content.DONE, [done])
            self._files.sync_folder(path)
        except OSError:
            with suppress(OSError):
                content.remove(self._files, path)
            raise
        self._verified[path] = saved
        return saved

    def paths(self) -> list[Path]:
        """Return the folders of all checkpoints, newest first; they may be damaged."""
        return self._sorted(self._names())

    def newest_step(self) -> int | None:
        """Return the step of the newest complete checkpoint, without the time to verify it."""
        complete = (path for path in self.paths() if (path / content.DONE).exists())
        keys = (key_of(path.name) for path in complete)
        return next((key.step for key in keys if key), None)

    def newest(self) -> Checkpoint | None:
        """Return the newest valid checkpoint: the last one of the latest attempt that saved any.
        Damaged checkpoints are skipped with a warning.

        Raises:
            SupersededError: There is none, because a later attempt has begun and deletes them.
        """
        self._verified.clear()
        checkpoint = next(self._valid(self._names()), None)
        if checkpoint is None and self._claimed:
            self._names_of(self._claimed[0])
        return checkpoint

    def best(self) -> Checkpoint | None:
        """Return the best valid checkpoint among those that were kept, by the metric of the
        newest.
        """
        self._verified.clear()
        checkpoints = list(self._valid(self._names()))
        by = checkpoints[0].decided_by if checkpoints else None
        valid = {checkpoint.entry(by): checkpoint for checkpoint in checkpoints}
        entry = best(valid)
        return valid[entry] if entry else None

    def retain(
        self,
        keep: int,
        *,
        keep_best: bool,
        keep_every_steps: int = 0,
        attempt: int | None = None,
    ) -> None:
        """Delete the checkpoints that `to_delete` selects, and write the index.

        Checkpoints that were verified before are not read again.

        Raises:
            OSError: A checkpoint cannot be deleted.
            SupersededError: A later attempt has begun.
        """
        attempt = attempt or self._attempt()
        names = self._names_of(attempt)
        seen = [self._look(path) for path in self._sorted(names)]
        # A run that continues may be decided by another metric than before.
        by = next((item.decided_by for item in seen if isinstance(item, Checkpoint)), None)
        entries = [item.entry(by) if isinstance(item, Checkpoint) else item for item in seen]
        doomed = to_delete(entries, keep, keep_best=keep_best, keep_every_steps=keep_every_steps)
        for entry in doomed:
            self._names_of(attempt)
            path = self.folder / checkpoint_name(entry.key)
            content.remove(self._files, path)
            self._verified.pop(path, None)
        left = [entry for entry in entries if entry.state == "valid" and entry not in doomed]
        self._names_of(attempt)
        _write_index(self._files, self.folder, left)

    def free_bytes(self) -> int | None:
        """Return the free space for checkpoints; None if the file system does not report it."""
        try:
            return self._files.free_bytes(self.folder)
        except OSError:
            return None

    def _attempt(self) -> int:
        return self._claimed[0] if self._claimed else max(highest_attempt(self._names()), 1)

    def _names(self) -> list[str]:
        return self._files.names(self.folder)

    def _names_of(self, attempt: int) -> list[str]:
        """Return the names in the folder, if this attempt may still change it."""
        names = self._names()
        highest = highest_attempt(names)
        if highest > attempt:
            raise SupersededError(
                f"{self.folder}: attempt {highest} of this run has begun, so this process, attempt"
                f" {attempt}, no longer saves; end it"
            )
        if self._claimed and self._claimed[0] == attempt:
            # Where creating a file is not exclusive, two attempts may have claimed one number.
            with suppress(FileNotFoundError):
                token = b"".join(self._files.read(self.folder / marker_name(attempt)))
                if token != self._claimed[1]:
                    raise SupersededError(
                        f"{self.folder}: another process is also attempt {attempt} of this run;"
                        " start the run only once"
                    )
        return names

    def _refuse_if_full(self, path: Path, needed: int) -> None:
        """Fail before the disk is full, because other files of the run may need the rest."""
        free = self.free_bytes()
        if free is not None and free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _sorted(self, names: Iterable[str]) -> list[Path]:
        keys = {name: key for name in names if (key := key_of(name))}
        return [self.folder / name for name in sorted(keys, key=keys.__getitem__, reverse=True)]

    def _valid(self, names: Iterable[str]) -> Iterator[Checkpoint]:
        """Yield valid checkpoints, newest first; those verified before are not read again."""
        for path in self._sorted(names):
            checkpoint = self._look(path)
            if isinstance(checkpoint, Checkpoint):
                yield checkpoint

    def _look(self, path: Path) -> Checkpoint | Entry:
        """Return a checkpoint if it is valid, otherwise its entry with the fault."""
        # A single lookup, because a save in the background may remove the entry in between.
        with suppress(KeyError):
            return self._verified[path]
        result: Checkpoint | Entry
        try:
            result = content.read_checkpoint(self._files, path)
        except CheckpointError as error:
            warn(f"{error}; skipped")
            key = key_of(path.name)
            assert key is not None
            incomplete = isinstance(error, content.IncompleteError)
            result = Entry(key, "incomplete" if incomplete else "damaged")
        self._verified[path] = result
        return result


def _write_index(files: Files, folder: Path, valid: Sequence[Entry]) -> None:
    """Write `index.json` atomically, for people and other tools.

    The trainer itself never reads it: everything follows from the folders, so an index that is
    missing, damaged or out of date does no harm.

    Args:
        files: File system.
        folder: Folder of the checkpoints.
        valid: All complete checkpoints, newest first.
    """
    best_entry = best(valid)
    data = {
        "schema": _INDEX_SCHEMA,
        "newest": checkpoint_name(valid[0].key) if valid else None,
        "best": checkpoint_name(best_entry.key) if best_entry else None,
        "checkpoints": [
            {
                "name": checkpoint_name(entry.key),
                "step": entry.key.step,
                "attempt": entry.key.attempt,
                "bytes": entry.bytes,
                "score": entry.score,
            }
            for entry in valid
        ],
    }
    # A save must not fail because of the index, as nothing depends on it.
    with suppress(OSError):
        files.remove(folder / _SCRATCH)
        files.write(folder / _SCRATCH, [json.dumps(data, indent=1).encode() + b"\n"])
        files.rename(folder / _SCRATCH, folder / INDEX)
