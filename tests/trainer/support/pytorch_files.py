"""Files in the two layouts of `torch.save`, written without PyTorch."""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile
from contextlib import contextmanager

import numpy as np

STORAGES = {"f4": "FloatStorage", "f8": "DoubleStorage", "f2": "HalfStorage", "i8": "LongStorage"}


@contextmanager
def _named_as_in_pytorch():
    """Let a pickle name PyTorch's classes and functions, which are not installed."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*_):
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = (
        "torch._utils",
        "_rebuild_tensor_v2",
    )
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        yield torch, _rebuild_tensor_v2
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class _Storage:
    def __init__(self, key, array, kind):
        self.key, self.array, self.kind = key, array, kind


class _Tensor:
    def __init__(self, storage, shape, strides, offset, rebuild):
        self.parts = storage, offset, shape, strides, False, collections.OrderedDict()
        self.rebuild = rebuild

    def __reduce__(self):
        return self.rebuild, self.parts


class _Pickler(pickle.Pickler):
    def __init__(self, file, *, older):
        super().__init__(file, protocol=2)
        self._older = older

    def persistent_id(self, value):
        if not isinstance(value, _Storage):
            return None
        more = (None,) if self._older else ()
        return ("storage", value.kind, value.key, "cpu", value.array.size, *more)


def torch_save(path, arrays, *, older=False, extra=None):
    """Write arrays by name, each a tensor with a storage of its own, and something else."""
    with _named_as_in_pytorch() as (torch, rebuild):
        storages, state = [], collections.OrderedDict()
        for number, (name, array) in enumerate(arrays.items()):
            kind = getattr(torch, STORAGES[array.dtype.str[1:]])
            storage = _Storage(str(number), np.ascontiguousarray(array), kind)
            storages.append(storage)
            strides = tuple(int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim))
            state[name] = _Tensor(storage, array.shape, strides, 0, rebuild)
        state._metadata = collections.OrderedDict(version=1)
        if extra is not None:
            state["extra"] = extra
        pickled = io.BytesIO()
        _Pickler(pickled, older=older).dump(state)
    if not older:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickled.getvalue())
            archive.writestr("archive/byteorder", "little")
            for storage in storages:
                archive.writestr(f"archive/data/{storage.key}", storage.array.tobytes())
            archive.writestr("archive/version", "3\n")
        return
    with path.open("wb") as file:
        for head in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(head, file, protocol=2)
        file.write(pickled.getvalue())
        pickle.dump([storage.key for storage in storages], file, protocol=2)
        for storage in storages:
            file.write(struct.pack("<q", storage.array.size) + storage.array.tobytes())
