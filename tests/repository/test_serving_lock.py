"""The scoring server runs the versions that are tested here."""

import re

import pytest

from tests import ROOT


def locked(name):
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("package", ["tensorflow-cpu", "numpy", "protobuf", "pillow"])
def test_the_server_has_the_version_that_the_trainer_is_tested_with(package):
    assert locked("serving")[package] == locked("trainer")[package]


def test_the_server_has_nothing_of_the_training():
    assert not locked("serving").keys() & {"horovod", "tf-keras", "pyarrow", "onnxruntime"}
