"""Tensors as a safetensors file, without a second copy of them in memory.

The format: the header's length (8 bytes, little-endian), the header (JSON: of each tensor dtype,
shape and place), and the tensors themselves, little-endian, without gaps
(https://github.com/huggingface/safetensors).
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from trainer.checkpoints.filesystem import CHUNK, Chunk

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
"""Bytes; the header is filled up to a multiple, so that a reader may map tensors into memory."""


def to_chunks(tensors: Mapping[str, Array]) -> Iterator[Chunk]:
    """The bytes of a safetensors file of these tensors: views of them, not copies.

    Raises:
        KeyError: a dtype that the format has no name for.
    """
    # The widest first, so that each stands where its dtype wants it.
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
    """Bytes of some tensors."""
    return sum(array.nbytes for array in tensors.values())
