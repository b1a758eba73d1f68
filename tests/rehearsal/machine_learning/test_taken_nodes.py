"""Nodes that go while a job is set up, one node of several, and a job that does not end."""

from dataclasses import replace

import pytest

from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import CLUSTER, OPTIONS, WORKSPACE, Client, declare
from tests.rehearsal.support.waiting import until

JOB = f"{WORKSPACE}/jobs/taken"


@pytest.fixture
def platform(tmp_path, request):
    with Simulator(tmp_path, replace(OPTIONS, **request.param)) as azure:
        declare(azure)
        yield Client(azure)


def nodes(client):
    listed = client.ask("POST", f"{CLUSTER}/listNodes").json()["nodes"]
    return sorted(one["nodeState"] for one in listed)


@pytest.mark.parametrize("platform", [{"setup_seconds": 3600.0}], indirect=True)
def test_nodes_are_taken_before_the_program_starts(platform):
    assert platform.job("taken", "echo started").ok
    until(lambda: nodes(platform) == ["running"], lambda: nodes(platform))
    assert platform.wait("taken", "Preparing")["status"] == "Preparing"
    text = "The container exited before the program was started."
    assert platform.azure.admin.preempt(job=JOB, manner="fail", message=text) == 1
    ended = platform.wait("taken")
    assert (ended["status"], ended["error"]["error"]["message"]) == ("Failed", text)
    assert not ended["logFiles"]


@pytest.mark.parametrize("platform", [{}], indirect=True)
def test_one_node_of_two_goes_and_the_job_stays_running(platform):
    line = 'echo "rank $OMPI_COMM_WORLD_RANK"; while [ ! -e "$HERE" ]; do sleep 0.05; done'
    go = platform.azure.folder / "go"
    answer = platform.job(
        "taken",
        line,
        resources={"instanceCount": 2},
        distribution={"distributionType": "Mpi", "processCountPerInstance": 1},
        environmentVariables={"HERE": str(go)},
    )
    assert answer.ok
    platform.wait_for_log("taken", "rank 0", "std_log_process_00.txt")
    platform.wait_for_log("taken", "rank 1", "std_log_process_01.txt")
    platform.azure.admin.take_node(JOB, 1)
    until(lambda: nodes(platform) == ["preempted", "running"], lambda: nodes(platform))
    assert platform.details("taken")["status"] == "Running"
    go.touch()
    ended = platform.wait("taken")
    assert ended["status"] == "Failed"
    assert "status code 137" in ended["error"]["error"]["message"]


@pytest.mark.parametrize("platform", [{"finalizing_seconds": 3600.0}], indirect=True)
def test_a_job_finalises_until_it_is_cancelled(platform):
    assert platform.job("taken", "true").ok
    assert platform.wait("taken", "Finalizing")["status"] == "Finalizing"
    assert nodes(platform) == ["running"]
    platform.cancel("taken")
    assert platform.wait("taken")["status"] == "Canceled"
