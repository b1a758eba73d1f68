"""`ml-trainer serve` before the server itself starts."""

import socket

import pytest

from tests import ROOT
from trainer import cli
from trainer.scoring import server
from trainer.scoring.options import ServeOptions


@pytest.fixture
def export(tmp_path):
    folder = tmp_path / "run" / "export" / "saved_model"
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"")
    return folder


@pytest.fixture
def executed(monkeypatch, tmp_path):
    """Programs that would have replaced this process."""
    started = []
    monkeypatch.setattr(server.os, "execve", lambda *args: started.append(args))
    monkeypatch.setattr(server, "PYTHON", tmp_path / "python")
    (tmp_path / "python").touch()
    return started


def test_the_server_listens_on_this_machine_only_and_gets_the_model(executed, export, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    run = str(tmp_path / "run")
    assert cli.main(["serve", "--run", run, "--port", port, "--workers", "3"]) == 0
    ((_, command, variables),) = executed
    assert command[command.index("--bind") + 1] == f"127.0.0.1:{port}"
    assert command[command.index("--workers") + 1] == "3"
    assert variables["AZUREML_MODEL_DIR"] == str(export)
    assert variables["AZUREML_ENTRY_SCRIPT"] == str(ROOT / "serving" / "score.py")


def test_a_run_without_an_export_is_told_how_to_make_one(executed, tmp_path, capsys):
    assert cli.main(["serve", "--run", str(tmp_path)]) == 4
    assert f"{tmp_path}: is not a run folder" in capsys.readouterr().err
    (tmp_path / "config.json").touch()
    assert cli.main(["serve", "--run", str(tmp_path)]) == 4
    err = capsys.readouterr().err
    assert f"to make it, run: ml-trainer export --run {tmp_path}" in err
    assert executed == []


def test_a_machine_without_the_server_is_told_how_to_install_it(executed, export, tmp_path, capsys):
    server.PYTHON.unlink()
    assert cli.main(["serve", "--run", str(tmp_path / "run")]) == 1
    assert "the inference server is not installed; run `make serve`" in capsys.readouterr().err
    assert executed == []


def test_a_port_in_use_is_named(executed, export, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert cli.main(["serve", "--run", str(tmp_path / "run"), "--port", str(port)]) == 1
    assert (
        f"127.0.0.1:{port}: cannot be listened on (Address already in use);"
        " choose another --host or --port" in capsys.readouterr().err
    )
    assert executed == []


def test_all_cores_answer_unless_a_number_is_given(monkeypatch):
    monkeypatch.setattr(server, "cores", lambda: 7)
    command = server.command(ServeOptions())
    assert command[command.index("--workers") + 1] == "7"


def test_a_process_has_more_threads_if_requests_share_calls(executed, export):
    for wait, threads in ((0.0, "4"), (10.0, "16")):
        options = ServeOptions(wait_ms=wait)
        command = server.command(options)
        assert command[command.index("--threads") + 1] == threads
        assert server.variables(options, export)["SCORE_WAIT_MS"] == str(wait)
