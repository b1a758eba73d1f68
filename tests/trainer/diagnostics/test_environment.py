"""The facts about the machine that are recorded with a run's figures."""

import json
from importlib.metadata import PackageNotFoundError

import pytest

from trainer.diagnostics import environment as module
from trainer.diagnostics.environment import environment


@pytest.mark.parametrize("name", ["tensorflow", "tensorflow-cpu"])
def test_tensorflow_is_recorded_by_the_name_that_is_installed(monkeypatch, name):
    def version(package):
        if package not in (name, "tf-keras", "numpy"):
            raise PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(module, "version", version)
    facts = environment()
    assert {key for key in facts if key in module.PACKAGES} == {name, "tf-keras", "numpy"}


def test_gpus_are_recorded_where_there_are_any():
    assert environment(["V100", "", "V100"])["gpus"] == ["V100", "V100"]
    assert "gpus" not in environment(["", ""])


def test_a_machine_that_tells_little_is_recorded_as_far_as_it_does(monkeypatch):
    def unreadable(*_, **__):
        raise OSError

    monkeypatch.setattr(module.platform, "freedesktop_os_release", unreadable)
    monkeypatch.setattr(module.Path, "read_text", unreadable)
    monkeypatch.setattr(module, "version", lambda _: "1.2.3")
    facts = json.loads(json.dumps(environment()))
    assert facts["system"].startswith("Linux, kernel ")
    assert len(facts["load_average"]) == 3
