"""What several tests of a preparation begin with."""

import errno
import os
from pathlib import Path

import pytest

from tests.trainer.support.data_sets.image_folders import write_images
from tests.trainer.support.data_sets.imagenet_files import make_train, make_truth, make_validation
from trainer.data.prepare.imagenet import imagenet_inputs
from trainer.errors import DataError


@pytest.fixture
def cats_and_dogs(tmp_path):
    return write_images(tmp_path / "in", {"cat": 12, "dog": 7})


@pytest.fixture
def failing(monkeypatch):
    """Let reads of files that end so fail as often as told, then work again."""
    left = {}
    read = os.pread

    def pread(file, *args):
        name = str(Path(f"/proc/self/fd/{file}").readlink())
        for ending, times in left.items():
            if name.endswith(ending) and times:
                left[ending] -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, *args)

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr("trainer.data.prepare.input_files.time.sleep", lambda _: None)
    return left


@pytest.fixture
def layout(tmp_path):
    """The archives as downloaded, with a synset a line."""
    return {
        "train": make_train(tmp_path, "archive"),
        "validation": make_validation(tmp_path, "archive"),
        "ground_truth": make_truth(tmp_path, "synsets"),
        "words": None,
    }


@pytest.fixture
def fails():
    """A function that lists files and returns the error that it expects."""

    def check(layout, match):
        with pytest.raises(DataError, match=match) as caught:
            list(imagenet_inputs(**layout).files())
        return str(caught.value)

    return check
