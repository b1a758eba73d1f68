"""One checkpoint: a folder with the tensors (state.safetensors), the metadata (meta.json), and
DONE, which is written last and lists size and checksum of both.

A folder is never renamed, because a mount of an object store would copy each file one by one.
So a folder without a matching DONE was never finished, is partly deleted, or is damaged.

state.safetensors is written without a second copy of the tensors in memory. Its format: the
header's length (8 bytes, little-endian), the header (JSON: of each tensor dtype, shape and place),
and the tensors themselves, little-endian, without gaps
(https://github.com/huggingface/safetensors).
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from common.files import parse_json
from trainer.checkpoints.filesystem import CHUNK, Chunk, Files, Fingerprint, fingerprint
from trainer.checkpoints.names import Key, key_of
from trainer.checkpoints.retention_policy import Entry
from trainer.errors import CheckpointError
from trainer.leaves import score_in

SCHEMA = 2
STATE, META, DONE = "state.safetensors", "meta.json", "DONE"
Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
_CODES = {
    np.dtype(name): code
    for name, code in (
        *(("<f8", "F64"), ("<f4", "F32"), ("<f2", "F16")),
        *(("<i8", "I64"), ("<i4", "I32"), ("<i2", "I16"), ("i1", "I8")),
        *(("<u8", "U64"), ("<u4", "U32"), ("<u2", "U16"), ("u1", "U8"), ("?", "BOOL")),
    )
}
_ALIGNMENT = 8
"""Alignment of the tensors, in bytes; the header is padded so that a reader may map them."""


class IncompleteError(CheckpointError):
    """A checkpoint that was never finished, or is partly deleted: DONE is missing or truncated."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    key: Key
    meta: dict[str, Any]
    bytes: int

    @property
    def step(self) -> int:
        """Steps done."""
        return self.key.step

    @property
    def decided_by(self) -> str | None:
        """Key of the metric that decides which checkpoint is the best; None is the first one of
        the task, as in versions that knew no other.
        """
        return self.meta.get("decided_by")

    def entry(self, by: str | None = None) -> Entry:
        """Return the facts that decide whether the checkpoint is kept.

        Args:
            by: Key of the metric that is its score; None is its own.
        """
        return Entry(self.key, "valid", score_in(self.meta, by), self.bytes)

    def load(self) -> Tensors:
        """Read the tensors.

        Raises:
            CheckpointError: The checkpoint cannot be read any more.
        """
        try:
            return dict(safetensors.numpy.load_file(self.path / STATE))
        except (OSError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{self.path}: cannot be read any more ({error})") from error


def write_data(
    files: Files, path: Path, key: Key, tensors: Mapping[str, Array], meta: Mapping[str, Any]
) -> tuple[Checkpoint, bytes]:
    """Write all files of a checkpoint except DONE; return when they are on disk.

    Returns:
        The checkpoint, which is complete once DONE is written, and the content of DONE.
    """
    marks = {"schema": SCHEMA, "step": key.step, "attempt": key.attempt}
    content = {**meta, **marks}
    files.make_folder(path)
    parts = {STATE: to_chunks(tensors), META: [json.dumps(content, indent=1).encode()]}
    listing, total = {}, 0
    for name, chunks in parts.items():
        seen = Fingerprint()
        files.write(path / name, seen.over(chunks))
        listing[name] = seen.facts()
        total += seen.bytes
    files.sync_folder(path)
    files.sync_folder(path.parent)
    done = json.dumps({**marks, "files": listing}).encode()
    # The same as a reader gets: JSON turns tuples into lists.
    return Checkpoint(path, key, json.loads(json.dumps(content)), total), done


def not_finite(tensors: Mapping[str, Array]) -> str | None:
    """Return which tensor has values that are infinite or not a number, and how many; None without
    one.
    """
    for name, value in tensors.items():
        count = 0 if np.isfinite(value).all() else int((~np.isfinite(value)).sum())
        if count:
            return f"{count:,} of {value.size:,} values of {name} are not finite"
    return None


def to_chunks(tensors: Mapping[str, Array]) -> Iterator[Chunk]:
    """Yield the bytes of a safetensors file: views of the tensors, not copies.

    Raises:
        KeyError: The format has no name for a dtype.
    """
    # The widest dtypes first, so that each tensor is aligned for its dtype.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header, end = {}, 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _CODES[array.dtype],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    yield struct.pack("<Q", len(text)) + text
    for _, array in ordered:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), CHUNK):
            yield data[begin : begin + CHUNK]


def nbytes(tensors: Mapping[str, Array]) -> int:
    """Return the size of some tensors in bytes."""
    return sum(array.nbytes for array in tensors.values())


def read_checkpoint(files: Files, path: Path) -> Checkpoint:
    """Verify a checkpoint and read its metadata.

    Raises:
        IncompleteError: The checkpoint has no DONE.
        CheckpointError: The checkpoint is damaged, or another version wrote it.
    """
    key = key_of(path.name)
    if key is None:
        raise CheckpointError(f"{path}: is not named like a checkpoint")
    try:
        done = parse_json(b"".join(files.read(path / DONE)))
    except (FileNotFoundError, ValueError) as error:
        raise IncompleteError(f"{path}: incomplete ({DONE} is missing or truncated)") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    try:
        schema = _schema(done)
        if schema != SCHEMA:
            raise CheckpointError(
                f"{path}: has schema {schema}, not {SCHEMA}; only another version of the trainer"
                " can read it"
            )
        text = b"".join(files.read(path / META))
        fingerprints = {STATE: fingerprint(files.read(path / STATE)), META: fingerprint([text])}
        for name, facts in fingerprints.items():
            if done["files"][name] != facts:
                raise CheckpointError(f"{path / name}: damaged (size or checksum differs)")
        expected = {
            "schema": SCHEMA,
            "step": key.step,
            "attempt": key.attempt,
            "files": fingerprints,
        }
        if done != expected:
            raise CheckpointError(f"{path / DONE}: belongs to another checkpoint")
        meta = parse_json(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: damaged ({error})") from error
    return Checkpoint(path, key, meta, sum(int(facts["bytes"]) for facts in fingerprints.values()))


def _schema(done: Any) -> Any:
    """Return the schema in DONE; the first version only listed the files, with SHA-256."""
    if isinstance(done, dict) and "sha256" in (done.get(STATE) or {}):
        return 1
    return done["schema"]


def remove(files: Files, path: Path) -> None:
    """Delete a checkpoint: DONE first, so that a partly deleted one counts as incomplete."""
    files.remove(path / DONE)
    files.sync_folder(path)
    files.remove_tree(path)
