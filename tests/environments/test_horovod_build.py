import pytest

from environments import horovod_build

BUILT = '{\n"tensorflow": "%s",\n"dummy": "none"\n}'


def test_a_horovod_of_another_tensorflow_is_compiled_again(monkeypatch, capsys):
    why = "Horovod was compiled for TensorFlow 2.18.1, and 2.20.0 is installed"
    assert horovod_build.stale(BUILT % "2.18.1", "2.20.0") == why
    assert horovod_build.stale('{"dummy": "none"}', "2.20.0") is not None
    monkeypatch.setattr(horovod_build, "_tensorflow", lambda: "0.1")
    assert horovod_build.main() == 1
    assert "0.1 is installed" in capsys.readouterr().out


def test_a_horovod_of_the_installed_tensorflow_stays(capsys):
    pytest.importorskip("horovod")
    assert horovod_build.stale(BUILT % "2.20.0", "2.20.0") is None
    assert horovod_build.main() == 0
    assert capsys.readouterr().out == ""
