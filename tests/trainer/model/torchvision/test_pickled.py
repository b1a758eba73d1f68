"""Files of PyTorch are read without PyTorch, and nothing in them is called."""

import os

import numpy as np
import pytest

from tests.trainer.support.pytorch_files import torch_save
from trainer.model.torchvision.pickled import _Storage, _Tensor, read_tensors

ARRAYS = {
    "conv1.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "bn1.running_var": np.linspace(0, 1, 5),
    "half": np.array([1, 0.5], np.float16),
    "bn1.num_batches_tracked": np.array(7),
}


@pytest.mark.parametrize("older", [False, True])
def test_both_layouts_are_read_bit_by_bit(tmp_path, older):
    torch_save(tmp_path / "a.pth", ARRAYS, older=older)
    found = read_tensors(tmp_path / "a.pth")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("older", [False, True])
def test_a_file_that_names_another_function_is_refused_and_nothing_is_called(tmp_path, older):
    harm = tmp_path / "harm"
    torch_save(tmp_path / "a.pth", ARRAYS, older=older, extra=Harmful(harm))
    with pytest.raises(ValueError, match=r"it names (posix|os)\.mkdir, which no file of weights"):
        read_tensors(tmp_path / "a.pth")
    assert not harm.exists()


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_damaged_file_is_refused(tmp_path, older, share):
    path = tmp_path / "a.pth"
    torch_save(path, ARRAYS, older=older)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=r"not a file of PyTorch, or it is damaged|beyond its"):
        read_tensors(path)


def test_what_is_no_state_dictionary_is_refused(tmp_path):
    torch_save(tmp_path / "a.pth", ARRAYS, extra=[1, 2])
    with pytest.raises(ValueError, match="it is not a state dictionary"):
        read_tensors(tmp_path / "a.pth")


def test_a_view_is_read_by_its_strides_and_never_beyond_its_storage():
    storage, content = _Storage("0", "<f4", 6), np.arange(6, dtype="<f4").tobytes()
    turned = _Tensor(storage, 0, (3, 2), (1, 3)).array(content)
    np.testing.assert_array_equal(turned, [[0, 3], [1, 4], [2, 5]])
    for offset, strides in ((1, (1, 3)), (0, (2, 3)), (-1, (1, 3)), (5, (-1, 3))):
        with pytest.raises(ValueError, match="beyond its storage"):
            _Tensor(storage, offset, (3, 2), strides).array(content)
