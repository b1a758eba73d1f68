"""Checkpoints: complete or absent, verified before they are used.

A checkpoint is a folder `step-0000000460` with the tensors (safetensors), what else decides the
future (meta.json), and DONE, which lists sizes and checksums of both. It is written under another
name, synced and renamed, so that a folder of that name without a fitting DONE can only be damage.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from trainer.errors import CheckpointError

SCHEMA = 1
STATE, META, DONE = "state.safetensors", "meta.json", "DONE"

Tensors = dict[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    step: int
    meta: dict[str, Any]

    def load(self) -> Tensors:
        """Read its tensors."""
        return dict(safetensors.numpy.load_file(self.path / STATE))


class CheckpointFolder:
    """All checkpoints of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._verified: dict[Path, Checkpoint | None] = {}

    def save(self, step: int, tensors: Tensors, meta: Mapping[str, Any]) -> Checkpoint:
        """Write a checkpoint; returns when it is on disk.

        Args:
            step: steps done.
            tensors: copies of the state, never views of live variables.
            meta: plain data to be stored with them.

        Raises:
            OSError: it cannot be written; nothing of it stays.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step:010d}"
        scratch = self.folder / f".{path.name}.partial"
        content = {**meta, "schema": SCHEMA, "step": step}
        files = {
            STATE: safetensors.numpy.save(tensors),
            META: json.dumps(content, indent=1).encode(),
        }
        listing = {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        }
        for left_over in self.folder.glob(".step-*.partial"):
            shutil.rmtree(left_over, ignore_errors=True)
        try:
            scratch.mkdir()
            for name, data in {**files, DONE: json.dumps(listing).encode()}.items():
                _write_synced(scratch / name, data)
            _sync_folder(scratch)
            # A damaged one of this step may stand in the way.
            shutil.rmtree(path, ignore_errors=True)
            scratch.rename(path)
            _sync_folder(self.folder)
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        saved = self._verified[path] = Checkpoint(path, step, content)
        return saved

    def steps(self) -> list[Path]:
        """Folders of checkpoints, newest first; they may be damaged."""
        return sorted(self.folder.glob("step-*"), reverse=True)

    def newest(self) -> Checkpoint | None:
        """The newest valid checkpoint; damaged ones are named on the console and passed over."""
        self._verified.clear()
        return next(self._valid(), None)

    def best(self) -> Checkpoint | None:
        """The valid checkpoint with the best top-1 among those that stayed."""
        self._verified.clear()
        return _best(self._valid())

    def retain(self, keep: int, *, keep_best: bool) -> None:
        """Delete all valid ones but the newest `keep` and, if wanted, the best one.

        Damaged ones neither count nor go: a person may want to look, or a newer version may know
        how to read them. What was verified before is not read again, as all ranks wait.
        """
        valid = list(self._valid())
        best = _best(valid) if keep_best else None
        for checkpoint in valid[keep:]:
            if checkpoint != best:
                shutil.rmtree(checkpoint.path)
                del self._verified[checkpoint.path]

    def _valid(self) -> Iterator[Checkpoint]:
        """Valid checkpoints, newest first; those verified before are not read again."""
        for path in self.steps():
            if path not in self._verified:
                try:
                    self._verified[path] = read_checkpoint(path)
                except CheckpointError as error:
                    self._verified[path] = None
                    print(f"warning: {error}; passed over", flush=True)
            checkpoint = self._verified[path]
            if checkpoint:
                yield checkpoint


def _best(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    rated = [checkpoint for checkpoint in checkpoints if checkpoint.meta.get("evaluation")]
    return max(rated, key=lambda c: (c.meta["evaluation"]["top1"], c.step), default=None)


def read_checkpoint(path: Path) -> Checkpoint:
    """Verify a checkpoint and read its meta data.

    Raises:
        CheckpointError: not complete, or not what was written; says in which file.
    """
    try:
        listing = json.loads((path / DONE).read_text())
        for name in (STATE, META):
            with (path / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found = {"bytes": (path / name).stat().st_size, "sha256": digest}
            if listing[name] != found:
                raise CheckpointError(f"{path / name}: damaged (size or checksum differs)")
        meta = json.loads((path / META).read_text())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: incomplete ({error})") from error
    if meta.get("schema") != SCHEMA:
        raise CheckpointError(f"{path}: has schema {meta.get('schema')}, not {SCHEMA}")
    return Checkpoint(path, meta["step"], meta)


def snapshot(variables: Mapping[str, Any]) -> Tensors:
    """Copies of variables in host memory; `.numpy()` alone may alias the live ones."""
    return {name: np.array(variable.numpy(), copy=True) for name, variable in variables.items()}


def restore(variables: Mapping[str, Any], tensors: Tensors, origin: Path) -> None:
    """Assign a checkpoint's tensors to variables.

    Raises:
        CheckpointError: names or shapes differ; nothing is assigned then.
    """
    missing, strange = (
        sorted(variables.keys() - tensors.keys()),
        sorted(tensors.keys() - variables.keys()),
    )
    shapes = [
        f"{name} {tensors[name].shape} instead of {tuple(variable.shape)}"
        for name, variable in variables.items()
        if name in tensors and tensors[name].shape != tuple(variable.shape)
    ]
    if missing or strange or shapes:
        faults = [f"missing {missing[:3]}"] * bool(missing) + [f"unknown {strange[:3]}"] * bool(
            strange
        )
        raise CheckpointError(f"{origin}: is of another model: {'; '.join(faults + shapes[:3])}")
    for name, variable in variables.items():
        variable.assign(tensors[name])


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
