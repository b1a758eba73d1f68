"""Everything that is started ends, however its owner does."""

import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal import simulator
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import Reaper, pids_marked
from rehearsal.simulator import Simulator
from tests import ROOT
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    OPTIONS,
    WORKSPACE,
    Client,
    compute,
    declare,
)
from tests.rehearsal.support.waiting import SECONDS, until

OWNER = """
import sys, time
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import OPTIONS, Client, declare
azure = Simulator(options=OPTIONS)
declare(azure)
client = Client(azure)
client.job("long", "setsid sleep 600 & sleep 600")
client.wait("long", "Running")
print(azure.mark, azure.folder, azure.azurite.port, flush=True)
time.sleep(600)
"""


def wait_for_processes(mark):
    """Until the blob server, a job's shell and its children exist."""
    until(lambda: len(pids_marked(mark)) >= 4)


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def port_of(url):
    return int(url.rpartition(":")[2])


def test_nothing_is_left_after_the_end():
    with Simulator(options=OPTIONS) as azure:
        declare(azure)
        client = Client(azure)
        client.job("long", "setsid sleep 600 & sleep 600")
        client.wait("long", "Running")
        mark, folder = azure.mark, azure.folder
        ports = [azure.azurite.port, port_of(azure.url)]
        wait_for_processes(mark)
        assert all(answers(port) for port in ports)
    assert not pids_marked(mark)
    assert not folder.exists()
    assert not any(answers(port) for port in ports)
    azure.close()


def test_nothing_is_left_when_the_owner_is_killed():
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        mark, folder, port = owner.stdout.readline().split()
        wait_for_processes(mark)
    finally:
        owner.kill()
        owner.wait()
    until(lambda: not pids_marked(mark))
    until(lambda: not Path(folder).exists())
    until(lambda: not answers(int(port)))


def test_a_start_that_fails_leaves_nothing(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        simulator, "Reaper", lambda *given: started.append(Reaper(*given)) or started[0]
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RehearsalError, match="is in use"):
            Simulator(tmp_path, OPTIONS, taken.getsockname()[1])
    assert started[0]._process.poll() == 0


def test_state_and_addresses_stay_when_it_is_started_again(tmp_path):
    with Simulator(tmp_path, OPTIONS) as first:
        declare(first)
        first.blobs.container("teststore", "results").upload_blob("a", b"kept")
        url, endpoint = first.url, first.blob_endpoint("teststore")
        first.admin.capacity(CLUSTER, 0)
        client = Client(first)
        client.job("waits", "echo after")
        client.wait("waits", "Queued")
    with Simulator(tmp_path, OPTIONS) as second:
        assert second.url == url
        client = Client(second)
        shown = client.get(ACCOUNT).json()["properties"]["primaryEndpoints"]["blob"]
        assert shown == endpoint == second.blob_endpoint("teststore")
        kept = second.blobs.container("teststore", "results").download_blob("a").readall()
        assert kept == b"kept"
        assert client.wait("waits")["status"] == "Completed"
        assert client.log("waits") == "after\n"


def test_serve_prints_the_environment_and_ends_by_a_signal(tmp_path):
    served = subprocess.Popen(
        [sys.executable, "-m", "rehearsal", "serve", "--state", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell in the background has taught its children to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    try:
        lines = [served.stdout.readline().strip() for _ in range(7)]
        served.send_signal(signal.SIGINT)
        assert served.wait(SECONDS) == 0
    finally:
        served.kill()
        served.wait()
    environment = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert environment["AZURE_AUTHORITY_HOST"].startswith("https://127.0.0.1:")
    assert Path(environment["REQUESTS_CA_BUNDLE"]).is_relative_to(tmp_path)
    assert not answers(port_of(environment["AZURE_AUTHORITY_HOST"]))
    assert (tmp_path / "azure.sqlite").exists()


def test_a_folder_has_one_azure_at_a_time_and_nobody_else_reads_it(tmp_path):
    with Simulator(tmp_path / "state", OPTIONS) as azure:
        before = (tmp_path / "state" / "tls").stat().st_mtime_ns
        with pytest.raises(RehearsalError, match="in use by process"):
            Simulator(tmp_path / "state", OPTIONS)
        assert (tmp_path / "state" / "tls").stat().st_mtime_ns == before
        assert answers(port_of(azure.url))
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    with Simulator(tmp_path / "state", OPTIONS) as azure:
        assert answers(port_of(azure.url))


def test_only_nodes_of_low_priority_are_preempted_by_chance(tmp_path):
    options = replace(OPTIONS, mean_node_seconds=0.5, seed=3)
    with Simulator(tmp_path / "azure", options) as azure:
        declare(azure)
        dedicated = f"{WORKSPACE}/computes/dedicated"
        azure.put(dedicated, "", compute(priority="Dedicated"))
        client = Client(azure)
        client.job("kept", "sleep 3", computeId=dedicated)
        client.job("preempted", "sleep 600")
        preempted = client.wait("preempted")
        assert preempted["status"] == "Failed"
        assert "PreemptionError" in preempted["error"]["error"]["message"]
        assert client.wait("kept")["status"] == "Completed"


def test_no_proxy_is_used_for_this_machine():
    both = {"NO_PROXY", "no_proxy"}
    assert simulator.without_proxy({}) == dict.fromkeys(both, "127.0.0.1,localhost")
    theirs = simulator.without_proxy({"no_proxy": "intranet,127.0.0.1", "NO_PROXY": "other"})
    assert theirs == dict.fromkeys(both, "intranet,127.0.0.1,localhost")
