"""Jobs of the simulator in the CPU image, where mpirun starts their ranks."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from common.containers import find_engine
from common.errors import UserError
from common.waiting import wait_until
from rehearsal.lifetime import pids_marked
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.rehearsal.support.small_platform import OPTIONS, WORKSPACE, Client, declare
from tests.rehearsal.support.training import train_on_two_nodes

pytestmark = pytest.mark.images

IMAGE = "localhost/trainer-cpu:latest"
IN_IMAGE = replace(OPTIONS, image=IMAGE, program_folder=None, grace_seconds=20.0)
TWO = {
    "resources": {"instanceCount": 2},
    "distribution": {"distributionType": "Mpi", "processCountPerInstance": 1},
}
LOGS = ["std_log_process_00.txt", "std_log_process_01.txt"]

OWNER = """
import time
from rehearsal.simulator import Simulator
from tests.images.test_rehearsal_image import IN_IMAGE, TWO
from tests.rehearsal.support.small_platform import Client, declare
azure = Simulator(options=IN_IMAGE)
declare(azure)
client = Client(azure)
client.job("long", "setsid sleep 600 & echo ready; sleep 600", **TWO)
client.wait_for_log("long", "ready", "std_log_process_01.txt")
print(azure.mark, azure.folder, flush=True)
time.sleep(600)
"""


def containers_of(mark):
    command = [find_engine().program, "ps", "--all", "--format={{.Names}}", f"--filter=name={mark}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def command_lines():
    """Return the command lines of all processes of this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield (folder / "cmdline").read_bytes()
            except OSError:
                continue


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    try:
        there = find_engine().has(IMAGE)
    except UserError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip(f"{IMAGE} does not exist; `make -C tools images` builds it")
    with Simulator(tmp_path_factory.mktemp("azure"), IN_IMAGE) as azure:
        declare(azure)
        yield azure


@pytest.fixture
def client(azure):
    return Client(azure)


@pytest.fixture
def results(azure):
    return azure.blobs.container("teststore", "results")


def output(path):
    uri = f"azureml://datastores/results/paths/{path}"
    return {"run": {"jobOutputType": "uri_folder", "uri": uri, "mode": "ReadWriteMount"}}


def test_mpirun_starts_the_ranks_each_with_its_own_folder_and_log(client, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OF_THE_CALLER", "1")
    client.job("ranks", "pwd; env; tr '\\0' ' ' </proc/1/cmdline; hostname >mine; sleep 2", **TWO)
    seen = set()

    def ended():
        seen.update(command_lines())
        return client.details("ranks")["status"] in {"Completed", "Failed"}

    assert wait_until(ended, 120)
    assert client.wait("ranks")["status"] == "Completed"
    one, other = (variables(client.log("ranks", name)) for name in LOGS)
    assert (one["OMPI_COMM_WORLD_RANK"], other["OMPI_COMM_WORLD_RANK"]) == ("0", "1")
    assert one["OMPI_COMM_WORLD_SIZE"] == other["OMPI_COMM_WORLD_SIZE"] == "2"
    assert one["OMPI_COMM_WORLD_LOCAL_SIZE"] == other["OMPI_COMM_WORLD_LOCAL_SIZE"] == "1"
    assert not {"HTTP_PROXY", "OF_THE_CALLER"} & (one.keys() | other.keys())
    assert (one["AZUREML_CR_NODE_RANK"], other["AZUREML_CR_NODE_RANK"]) == ("0", "1")
    assert one["PMIX_NAMESPACE"] == other["PMIX_NAMESPACE"]
    assert one["PATH"].startswith("/opt/trainer/bin:")
    for name in ("HOME", "PWD", "TMPDIR"):
        assert one[name] != other[name]
    assert client.log("ranks", LOGS[1]).splitlines()[0] == other["HOME"]
    assert "mpirun" in client.log("ranks", LOGS[0])
    # What runs it is visible to everybody on the machine, so the token is not in it.
    token = one["AZUREML_RUN_TOKEN"].encode()
    assert token == other["AZUREML_RUN_TOKEN"].encode()
    assert any(client.azure.mark.encode() in line for line in seen)
    assert not [line for line in seen if token in line]


def test_inputs_and_outputs_are_folders_inside(client, results):
    results.upload_blob("in/one.txt", b"1", overwrite=True)
    given = {"jobInputType": "uri_folder", "uri": "azureml://datastores/results/paths/in/"}
    client.job(
        "folders",
        "cat ${{inputs.d}}/one.txt; touch ${{inputs.d}}/two || echo kept; echo $x;"
        " echo 2 >${{outputs.run}}/two",
        inputs={"d": given},
        outputs=output("folders"),
        environmentVariables={"x": "a 'quoted' \"word\" $HOME\nand a line"},
    )
    assert client.wait("folders")["status"] == "Completed"
    log = client.log("folders")
    assert log.startswith("1")
    assert log.endswith("kept\na 'quoted' \"word\" $HOME and a line\n")
    assert results.download_blob("folders/two").readall() == b"2\n"


@pytest.mark.parametrize(
    ("command", "status"), [("exit 7", 7), ("kill -KILL $$", 137)], ids=["status", "signal"]
)
def test_a_failing_rank_ends_the_others_and_is_named(client, command, status):
    name = f"failing-{status}"
    line = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then {command}; fi; sleep 600'
    client.job(name, line, **TWO)
    message = client.wait(name)["error"]["error"]["message"]
    assert f"exited with status code {status}" in message
    assert f"user_logs/{LOGS[1]}" in message


def test_a_job_without_mpirun_is_its_command_alone(client, azure):
    client.job("alone", "echo $0 of $$; env; exit 3")
    ended = client.wait("alone")
    assert "exited with status code 3" in ended["error"]["error"]["message"]
    assert "user_logs/std_log.txt" in ended["error"]["error"]["message"]
    assert "of 1\n" in client.log("alone")
    assert "OMPI_COMM_WORLD_RANK" not in client.log("alone")
    assert not containers_of(azure.mark)


@pytest.mark.parametrize("distribution", [{}, TWO], ids=["alone", "mpirun"])
def test_cancel_asks_the_first_process_before_it_kills(client, azure, distribution):
    name, log = ("asked-all", LOGS[1]) if distribution else ("asked", "std_log.txt")
    loop = "echo ready; while true; do sleep 0.05; done"
    client.job(name, f"trap 'echo stopping; exit 0' TERM; {loop}", **distribution)
    client.wait_for_log(name, "ready", log)
    client.ask("POST", f"{WORKSPACE}/jobs/{name}/cancel")
    assert client.wait(name)["status"] == "Canceled"
    assert "stopping" in client.log(name, log).splitlines()
    assert not containers_of(azure.mark)


@pytest.mark.usefixtures("azure")
def test_a_job_that_does_not_stop_is_killed(tmp_path):
    with Simulator(tmp_path / "azure", replace(IN_IMAGE, grace_seconds=1.0)) as azure:
        declare(azure)
        client = Client(azure)
        client.job("deaf", "trap '' TERM; echo ready; while true; do sleep 0.05; done")
        client.wait_for_log("deaf", "ready")
        client.ask("POST", f"{WORKSPACE}/jobs/deaf/cancel")
        assert client.wait("deaf")["status"] == "Canceled"
        assert not containers_of(azure.mark)


def test_lost_nodes_leave_nothing_and_the_next_attempt_goes_on(client, azure, results):
    # Of each rank, as the nodes share the folder and start one after the other.
    been = "${{outputs.run}}/$OMPI_COMM_WORLD_RANK"
    first = f"touch {been}; echo first; trap '' TERM; setsid sleep 600 & sleep 600"
    line = f"if [ -e {been} ]; then echo again; else {first}; fi"
    client.job("taken", line, outputs=output("taken"), **TWO)
    client.wait_for_log("taken", "first", LOGS[1])
    client.wait_for_log("taken", "first", LOGS[0])
    assert wait_until(
        lambda: len(list(results.list_blob_names(name_starts_with="taken/"))) == 2, 120
    )
    before = containers_of(azure.mark)
    assert len(before) == 1
    azure.admin.preempt(job=f"{WORKSPACE}/jobs/taken", manner="restart")
    assert not set(before) & set(containers_of(azure.mark))
    assert client.wait("taken")["status"] == "Completed"
    assert client.log("taken", LOGS[0]) == client.log("taken", LOGS[1]) == "again\n"
    assert not containers_of(azure.mark)


def test_two_ranks_train_by_mpi_and_their_metrics_come_to_the_workspace(client, azure, results):
    log, result = train_on_two_nodes(client, azure, results)
    assert result["ranks"] == 2, log
    metrics = azure.mlflow.metrics(f"{WORKSPACE}/jobs/training")
    assert metrics["train/loss"][-1]["step"] == 6, log
    assert metrics["evaluation/top1"][-1]["value"] == pytest.approx(result["top1"])


@pytest.mark.usefixtures("azure")
def test_nothing_is_left_when_the_owner_is_killed():
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        mark, folder = owner.stdout.readline().split()
        assert len(containers_of(mark)) == 1
    finally:
        owner.kill()
        owner.wait()
    assert wait_until(lambda: not Path(folder).exists(), 120)
    assert not containers_of(mark)
    assert not pids_marked(mark)


@pytest.mark.usefixtures("azure")
def test_nothing_is_left_after_the_end(tmp_path):
    with Simulator(tmp_path / "azure", IN_IMAGE) as azure:
        declare(azure)
        client = Client(azure)
        client.job("long", "trap '' TERM; echo ready; sleep 600", **TWO)
        client.wait_for_log("long", "ready", LOGS[1])
        mark = azure.mark
        assert len(containers_of(mark)) == 1
    assert not containers_of(mark)
    assert not pids_marked(mark)
    assert not list((tmp_path / "azure" / "nodes").rglob("*"))
