"""The tensors of a file that `torch.save` has written, without PyTorch, and without executing it.

A pickle can name any function to call. Here it can name those that make tensors, and nothing else.
There are two layouts: a ZIP archive of NAME/data.pkl and NAME/data/KEY, the bytes of each storage,
since PyTorch 1.6; before that, four pickles, the list of the storages' keys, and of each storage
its length as 8 bytes and its content. PyTorch's torch/serialization.py reads both.
"""

import collections
import io
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from trainer.checkpoints.format import Array, Tensors

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_TYPES: Final = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}


@dataclass(frozen=True)
class _Storage:
    """Values that tensors are views of."""

    key: str
    dtype: str
    length: int
    """Number of values."""


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Distance of neighbours along each axis, in values."""

    def array(self, content: bytes) -> Array:
        """Return the values, given those of the storage."""
        values = np.frombuffer(content, self.storage.dtype)
        last = self.offset + sum(
            (size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)
        )
        inside = self.offset >= 0 and all(step >= 0 for step in self.strides)
        if not inside or (0 not in self.shape and last >= len(values)):
            raise ValueError("a tensor reaches beyond its storage")
        if 0 in self.shape:
            return np.zeros(self.shape, values.dtype)
        width = values.itemsize
        view = np.lib.stride_tricks.as_strided(
            values[self.offset :], self.shape, [step * width for step in self.strides]
        )
        return np.array(view)


def _tensor(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: object
) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: _Tensor, *_: object) -> _Tensor:
    return tensor


_ALLOWED: Final[Mapping[tuple[str, str], Any]] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): dtype for name, dtype in _TYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    """Makes mappings and tensors, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the object of a name that a pickle may use.

        Raises:
            ValueError: It names something else.
        """
        if (module, name) not in _ALLOWED:
            raise ValueError(f"it names {module}.{name}, which no file of weights needs")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage with an identifier."""
        kind, dtype, key, _, length, *_rest = pid
        if kind != "storage" or dtype not in _TYPES.values():
            raise ValueError(f"it has a part of the kind {kind!r}")
        return _Storage(str(key), dtype, int(length))


def read_tensors(file: Path) -> Tensors:
    """Return the tensors of a state dictionary by name.

    Raises:
        ValueError: The file has another layout, contains anything but tensors, or is damaged.
        OSError: It cannot be read.
    """
    try:
        with file.open("rb") as content:
            read = _read_archive if zipfile.is_zipfile(content) else _read_older
            content.seek(0)
            return read(content)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, IndexError, AttributeError,
            struct.error, zipfile.BadZipFile, StopIteration) as error:  # fmt: skip
        raise ValueError(f"it is not a file of PyTorch, or it is damaged ({error})") from error


def _read_archive(content: IO[bytes]) -> Tensors:
    with zipfile.ZipFile(content) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = pickled.removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.namelist():
            order = archive.read(f"{folder}byteorder")
            if order != b"little":
                raise ValueError(f"its byte order is {order.decode(errors='replace')}")
        state = _Unpickler(io.BytesIO(archive.read(pickled))).load()
        return _arrays(state, lambda key: archive.read(f"{folder}data/{key}"))


def _read_older(content: IO[bytes]) -> Tensors:
    if _Unpickler(content).load() != _MAGIC:
        raise ValueError("it is not a file of PyTorch")
    for _ in ("version", "system"):
        _Unpickler(content).load()
    state, keys = _Unpickler(content).load(), _Unpickler(content).load()
    lengths = {tensor.storage.key: tensor.storage for tensor in _tensors(state).values()}
    stored: dict[str, bytes] = {}
    for key in map(str, keys):
        (length,) = struct.unpack("<q", content.read(8))
        stored[key] = content.read(length * np.dtype(lengths[key].dtype).itemsize)
    return _arrays(state, stored.__getitem__)


def _arrays(state: Any, content: Callable[[str], bytes]) -> Tensors:
    return {
        name: tensor.array(content(tensor.storage.key)) for name, tensor in _tensors(state).items()
    }


def _tensors(state: Any) -> dict[str, _Tensor]:
    if not isinstance(state, dict) or not all(
        isinstance(value, _Tensor) for value in state.values()
    ):
        raise ValueError("it is not a state dictionary, of names and tensors")
    return state
