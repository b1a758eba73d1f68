"""A rehearsal ends as a whole, although its owner is killed while Pulumi deploys and a job runs."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.lifetime import pids_marked
from rehearsal.pulumi.deployment import ROOT
from tests.rehearsal.support.waiting import until

pytestmark = pytest.mark.rehearse_all

OWNER = """
import json, threading, time
from rehearsal.pulumi.deployment import Deployment
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import OPTIONS, Client, declare
from tests.rehearsal.support.waiting import until

azure = Simulator(options=OPTIONS)
declare(azure)
client = Client(azure)
client.job("long", "setsid sleep 600 & sleep 600")
client.wait("long", "Running")
stack = Deployment(azure, azure.folder / "pulumi")
azure.admin.fault("^PUT .*(Network|Storage)", delay=5, times=None)
threading.Thread(target=stack.run, args=["up", "--yes", "--skip-preview"], daemon=True).start()
groups = "Microsoft.Resources/resourceGroups"
until(lambda: "hvd-dev-rg" in [one["name"] for one in azure.resources.of_kind(groups)])
provider = int(stack.environment["PULUMI_DEBUG_PROVIDERS"].rpartition(":")[2])
ports = [int(azure.url.rpartition(":")[2]), azure.azurite.port, provider]
print(json.dumps([azure.mark, str(azure.folder), ports]), flush=True)
time.sleep(600)
"""


def pids_of(folder):
    """Processes with a folder in their environment or their arguments."""
    pids = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if folder.encode() in variables:
                pids[int(process.name)] = (process / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue
    return pids


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_nothing_is_left_when_the_owner_is_killed_in_a_deployment():
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    folder = None
    try:
        mark, folder, ports = json.loads(owner.stdout.readline())
        programs = {Path(os.fsdecode(name)).name for name in pids_of(folder).values()}
        assert "pulumi" in programs
        assert all(answers(port) for port in ports)
        assert len(pids_marked(mark)) >= 4
        owner.kill()
        owner.wait()
        until(lambda: not Path(folder).exists())
        until(lambda: not pids_marked(mark))
        until(lambda: not pids_of(folder))
        until(lambda: not any(answers(port) for port in ports))
    finally:
        owner.kill()
        owner.wait()
        for pid in pids_of(folder) if folder else ():
            os.kill(pid, signal.SIGKILL)
