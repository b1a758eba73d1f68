"""TensorBoard shows the curves of a run from blob storage, with an identity and nothing else."""

import json
import signal
import socket
import urllib.request

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from common.errors import UserError
from jobs.azure.results import artifact_folder, artifact_store
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.commands import tensorboard as board
from jobs.commands.tensorboard import TensorboardOptions, arguments, file_system
from jobs.console import Console
from jobs.spec.job_spec import TENSORBOARD_DIR
from tests.jobs.support.platform import platform
from tests.jobs.support.tiny import begin, by_hand, status, wait_for

pytestmark = pytest.mark.usefixtures("outputs")


def curves(folder, steps):
    """Write an event file as the trainer does."""
    writer = EventFileWriter(str(folder))
    for step in range(steps):
        value = Summary.Value(tag="train/loss", simple_value=1.0 / (step + 1))
        writer.add_event(Event(wall_time=step, step=step, summary=Summary(value=[value])))
    writer.close()
    (file,) = folder.iterdir()
    return file


def ask(address, path):
    with urllib.request.urlopen(f"{address}{path}", timeout=10) as answer:
        return json.loads(answer.read())


@pytest.mark.long
def test_curves_of_all_attempts_are_served_and_grow(live, tmp_path):
    job = begin(live, "curves", "exit 6")
    wait_for(lambda: status(live, job) == "Failed")
    again = begin(live, "curves", "sleep 60", number=2)
    workspace = connect(live.outputs)
    artifacts = artifact_store(workspace.manager, workspace.storage)
    store = workspace.storage.container(artifacts)
    for name, steps in (("curves-r1", 2), ("curves-r2", 3)):
        file = curves(tmp_path / name, steps)
        folder = f"{artifact_folder(name)}/{TENSORBOARD_DIR}/curves/attempt-1"
        store.upload_blob(f"{folder}/{file.name}", file.read_bytes())
    child = by_hand(
        live, "tensorboard", "curves", "--port", "0", "--reload-seconds", "0.5", "--json"
    )
    try:
        text = ""
        while not text.endswith("}\n"):
            line = child.stdout.readline()
            assert line, child.stderr.read()
            text += line
        address = json.loads(text)["address"]
        runs = {"curves-r1/curves/attempt-1", "curves-r2/curves/attempt-1"}
        wait_for(lambda: set(ask(address, "data/runs")) == runs)
        found = ask(
            address, "data/plugin/scalars/scalars?tag=train/loss&run=curves-r2/curves/attempt-1"
        )
        assert [step for _, step, _ in found] == [0, 1, 2]
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    finally:
        child.kill()
        live.azure.scheduler.cancel(again)
    assert child.returncode == 0


def test_a_run_that_is_not_there_is_told(capsys):
    assert main(["tensorboard", "nothing"]) == 1
    assert "there is no job or run of this name" in capsys.readouterr().err


def test_an_account_is_addressed_as_azure_does_and_as_a_path():
    store = platform().datastores.results
    assert file_system(store) == {
        "account_name": store.account,
        "account_host": f"{store.account}.blob.core.windows.net",
        "anon": False,
    }


def test_one_job_is_one_folder_and_several_have_names():
    store = platform().datastores.results
    one = arguments(TensorboardOptions(), {"a-r1": "x/a"}, store)
    assert one["logdir"] == "abfs://results/x/a"
    two = arguments(TensorboardOptions(), {"a-r1": "x/a", "a-r2": "x/b"}, store)
    assert two["logdir_spec"] == "a-r1:abfs://results/x/a,a-r2:abfs://results/x/b"
    assert "logdir" not in two


def test_a_port_in_use_is_told_with_what_to_do(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = TensorboardOptions(port=taken.getsockname()[1])
        local = {"logdir": str(tmp_path), "host": options.host, "port": options.port}
        monkeypatch.setattr(board, "arguments", lambda *_: {**local, "load_fast": "false"})
        with pytest.raises(UserError, match=rf"port {options.port} of .* is in use.*--port"):
            board._serve(options, {}, platform().datastores.results, Console(as_json=True))
