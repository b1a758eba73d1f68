"""Saving in the background: the training waits for a copy in host memory, not for the disk."""

import threading
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import Array, Tensors, nbytes
from trainer.checkpoints.snapshot import refill, snapshot
from trainer.config import CheckpointConfig
from trainer.errors import FULL, CheckpointError, warn


@dataclass(frozen=True)
class Saved:
    """A checkpoint that has reached the disk."""

    step: int
    path: Path
    bytes: int
    seconds: float
    """Seconds of writing in the background until the checkpoint was on disk."""


@dataclass(frozen=True)
class _Request:
    step: int
    tensors: Tensors
    meta: dict[str, Any]


class CheckpointWriter:
    """Writes the checkpoints of one attempt, one at a time, on a thread of its own.

    The thread lives as long as there is something to write, and Python does not exit before it
    ends. A full disk does not end the run: it continues with the existing checkpoints, none of
    which is deleted to make room. Any other error is raised by the next call.

    Args:
        folder: Checkpoint folder of the run.
        attempt: Number that `CheckpointFolder.claim` returned.
        config: Which checkpoints to keep, and what to do if a save comes while it writes.
    """

    def __init__(self, folder: CheckpointFolder, attempt: int, config: CheckpointConfig) -> None:
        self._folder, self._attempt, self._config = folder, attempt, config
        self._asked: int | None = None
        self._changed = threading.Condition()
        # The following attributes are shared with the thread.
        self._writing = False
        self._pending: _Request | None = None
        self._free: list[Tensors] = []
        self._saved: list[Saved] = []
        self._error: BaseException | None = None
        self._newest: int | None = None

    def reserve(self, variables: Mapping[str, tf.Variable | Array]) -> None:
        """Allocate the memory of the first save in advance, which would slow that save down."""
        copies = 1 if self._config.when_busy == "wait" else 2
        self._free = [snapshot(variables) for _ in range(copies)]

    def save(
        self, step: int, variables: Mapping[str, tf.Variable | Array], meta: Mapping[str, Any]
    ) -> None:
        """Save a step; return when its state has been copied.

        Args:
            step: Steps done.
            variables: Every variable, or its value, that affects the rest of the training, by name.
            meta: Plain data to store with them; `evaluation` has the metrics of these weights.

        Raises:
            CheckpointError: An earlier save failed for another reason than a full disk.
            SupersededError: A later attempt has begun.
        """
        self._raise()
        tensors = self._room()
        refill(tensors, variables)
        request = _Request(step, tensors, deepcopy(dict(meta)))
        self._asked = step
        with self._changed:
            self._pending = request
            if not self._writing:
                self._writing = True
                threading.Thread(target=self._write_all, name="checkpoint").start()

    def save_now(
        self, step: int, variables: Mapping[str, tf.Variable | Array], meta: Mapping[str, Any]
    ) -> bool:
        """Save a step and wait until it is on disk, unless it is there already.

        Returns:
            Whether it is on disk; if not, the disk is full, and a warning was printed.
        """
        if self._asked == step:
            self.wait()
        if self._newest != step:
            self.save(step, variables, meta)
            self.wait()
        return self._newest == step

    @property
    def failed(self) -> bool:
        """Whether the next call raises an error."""
        return self._error is not None

    def check(self) -> list[Saved]:
        """Return the checkpoints written since the last call; raise errors as `save` does."""
        self._raise()
        with self._changed:
            saved, self._saved = self._saved, []
        return saved

    def wait(self) -> None:
        """Wait until nothing is left to write; raise errors as `save` does."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writing)
        self._raise()

    def close(self) -> None:
        """Finish pending writes and release the memory."""
        try:
            self.wait()
        finally:
            self._free.clear()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _room(self) -> Tensors:
        """Return memory for a copy; it is empty if there is none to reuse."""
        with self._changed:
            if self._config.when_busy == "wait":
                self._changed.wait_for(lambda: not self._writing)
                self._raise()
            elif self._pending:
                # The pending request is dropped, so its memory is free.
                tensors, self._pending = self._pending.tensors, None
                return tensors
            return self._free.pop() if self._free else {}

    def _write_all(self) -> None:
        while True:
            with self._changed:
                request, self._pending = self._pending, None
                if request is None or self._error is not None:
                    self._writing = False
                    self._changed.notify_all()
                    return
            try:
                self._write(request)
            except BaseException as error:  # noqa: BLE001 raised again by the next call
                self._error = error
            with self._changed:
                self._free.append(request.tensors)

    def _write(self, request: _Request) -> None:
        begin = time.perf_counter()
        try:
            saved = self._folder.save(request.step, request.tensors, request.meta, self._attempt)
        except OSError as error:
            if error.errno not in FULL:
                raise CheckpointError(
                    f"{self._folder.folder}: step {request.step:,} cannot be saved ({error})"
                ) from error
            free = self._folder.free_bytes()
            warn(
                f"{self._folder.folder}: step {request.step:,} was not saved ({error.strerror}): it"
                f" needs {nbytes(request.tensors):,} bytes,"
                f" {'an unknown number' if free is None else f'{free:,}'} are free; training"
                " continues, and earlier checkpoints are kept; free some space for the next save"
            )
            return
        seconds = time.perf_counter() - begin
        with self._changed:
            self._saved.append(Saved(saved.step, saved.path, saved.bytes, seconds))
            self._newest = saved.step
        config = self._config
        try:
            self._folder.retain(
                config.keep,
                keep_best=config.keep_best,
                keep_every_steps=config.keep_every_steps,
                attempt=self._attempt,
            )
        except OSError as error:
            raise CheckpointError(
                f"{self._folder.folder}: older checkpoints cannot be deleted ({error})"
            ) from error
