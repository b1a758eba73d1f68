"""Everything that is started ends, however its owner does."""

import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal import loopback
from rehearsal.errors import RehearsalError
from rehearsal.lifetime import Reaper, pids_marked
from rehearsal.loopback import Loopback
from tests import ROOT
from tests.rehearsal.conftest import ACCOUNT, OPTIONS, WORKSPACE, Client, compute, declare

OWNER = """
import sys, time
from pathlib import Path
from rehearsal.loopback import Loopback
from tests.rehearsal.conftest import OPTIONS, Client, declare
azure = Loopback(options=OPTIONS)
declare(azure)
client = Client(azure)
client.job("long", "setsid sleep 600 & sleep 600")
client.wait("long", "Running")
print(azure.mark, azure.folder, azure.azurite.port, flush=True)
time.sleep(600)
"""


def gone(mark, seconds=30):
    deadline = time.monotonic() + seconds
    while pids_marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not pids_marked(mark)


def has_started(mark, seconds=30):
    """Whether the blob server, a job's shell and what this has left behind are there."""
    deadline = time.monotonic() + seconds
    while len(pids_marked(mark)) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(pids_marked(mark)) >= 4


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_nothing_is_left_after_the_end():
    with Loopback(options=OPTIONS) as azure:
        declare(azure)
        client = Client(azure)
        client.job("long", "setsid sleep 600 & sleep 600")
        client.wait("long", "Running")
        mark, folder = azure.mark, azure.folder
        ports = [azure.azurite.port, int(azure.url.rpartition(":")[2])]
        assert has_started(mark)
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
        assert has_started(mark)
    finally:
        owner.kill()
        owner.wait()
    assert gone(mark)
    deadline = time.monotonic() + 30
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not answers(int(port))


def test_a_start_that_fails_leaves_nothing(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        loopback, "Reaper", lambda *given: started.append(Reaper(*given)) or started[0]
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RehearsalError, match="is taken"):
            Loopback(tmp_path, OPTIONS, taken.getsockname()[1])
    assert started[0]._process.poll() == 0


def test_state_and_addresses_stay_when_it_is_started_again(tmp_path):
    with Loopback(tmp_path, OPTIONS) as first:
        declare(first)
        first.blobs.container("teststore", "results").upload_blob("a", b"kept")
        url, endpoint = first.url, first.blob_endpoint("teststore")
        first.admin.capacity(f"{WORKSPACE}/computes/cluster", 0)
        client = Client(first)
        client.job("waits", "echo after")
        client.wait("waits", "Queued")
    with Loopback(tmp_path, OPTIONS) as second:
        assert second.url == url
        client = Client(second)
        shown = client.get(ACCOUNT).json()["properties"]["primaryEndpoints"]["blob"]
        assert shown == endpoint == second.blob_endpoint("teststore")
        assert (
            second.blobs.container("teststore", "results").download_blob("a").readall() == b"kept"
        )
        assert client.wait("waits")["status"] == "Completed"
        assert client.log("waits") == "after\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_the_environment_and_ends_by_a_signal(tmp_path, number):
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
        served.send_signal(number)
        assert served.wait(30) == 0
    finally:
        served.kill()
        served.wait()
    found = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert found["AZURE_AUTHORITY_HOST"].startswith("https://127.0.0.1:")
    assert Path(found["REQUESTS_CA_BUNDLE"]).is_relative_to(tmp_path)
    assert not answers(int(found["AZURE_AUTHORITY_HOST"].rpartition(":")[2]))
    assert (tmp_path / "azure.sqlite").exists()


def test_a_deletion_may_go_on_after_it_was_accepted():
    with Loopback(options=replace(OPTIONS, operation_seconds=0.3)) as azure:
        declare(azure)
        client = Client(azure)
        cluster = f"{WORKSPACE}/computes/cluster"
        accepted = client.ask("DELETE", cluster, underlyingResourceAction="Delete")
        assert accepted.status_code == 202
        operation = accepted.headers["Location"].removeprefix(azure.url)
        assert client.get(operation).status_code == 202
        assert client.get(cluster).json()["properties"]["provisioningState"] == "Deleting"
        deadline = time.monotonic() + 30
        while client.get(operation).status_code == 202 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.get(operation).json() == {"status": "Succeeded"}
        assert client.get(cluster).status_code == 404


def test_a_folder_has_one_azure_at_a_time_and_nobody_else_reads_it(tmp_path):
    with Loopback(tmp_path / "state", OPTIONS) as azure:
        before = (tmp_path / "state" / "tls").stat().st_mtime_ns
        with pytest.raises(RehearsalError, match="serves from it already"):
            Loopback(tmp_path / "state", OPTIONS)
        assert (tmp_path / "state" / "tls").stat().st_mtime_ns == before
        assert answers(int(azure.url.rpartition(":")[2]))
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    with Loopback(tmp_path / "state", OPTIONS) as azure:
        assert answers(int(azure.url.rpartition(":")[2]))


def test_nodes_of_low_priority_are_taken_by_chance_and_others_are_not(tmp_path):
    options = replace(OPTIONS, mean_node_seconds=0.5, seed=3)
    with Loopback(tmp_path / "azure", options) as azure:
        declare(azure)
        azure.put(f"{WORKSPACE}/computes/dedicated", "", dedicated())
        client = Client(azure)
        client.job("taken", "sleep 600")
        client.job("kept", "sleep 3", computeId=f"{WORKSPACE}/computes/dedicated")
        taken = client.wait("taken")
        assert taken["status"] == "Failed"
        assert "PreemptionError" in taken["error"]["error"]["message"]
        assert client.wait("kept")["status"] == "Completed"


def dedicated():
    body = compute()
    body["properties"]["properties"]["vmPriority"] = "Dedicated"
    return body
