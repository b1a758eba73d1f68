"""`python -m rehearsal serve` is small and quick enough for the tests of others."""

import json
import os
import shlex
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from tests.rehearsal.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS, IDLE_MEGABYTES = 3, 150


def family(process):
    """Return the ids of a process, its children and their children."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [process, *(one for child in children for one in family(child))]


def resident(process):
    """Return the resident memory of a process, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return kilobytes / 1024


@pytest.fixture
def serving(tmp_path):
    """Start a simulator that has a temporary folder."""
    command = [sys.executable, "-m", "rehearsal", "serve"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_simulator_alone_starts_soon_answers_plain_requests_and_leaves_nothing(serving, tmp_path):
    started = serving.stderr.readline()
    assert started.startswith("Simulator of Azure: https://127.0.0.1:")
    ticks = Path(f"/proc/{serving.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    # CPU time, because other tests share this machine's cores.
    assert sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") <= READY_SECONDS
    processes = family(serving.pid)
    assert sum(map(resident, processes)) <= IDLE_MEGABYTES

    variables = {}
    while "no_proxy" not in variables:
        name, value = serving.stdout.readline().removeprefix("export ").split("=", 1)
        variables[name] = shlex.split(value)[0]
    trust = ssl.create_default_context(cafile=variables["SSL_CERT_FILE"])
    url = variables["AZURE_AUTHORITY_HOST"]

    def send(path, body=None, method="GET", **headers):
        with urlopen(Request(url + path, body, headers, method=method), context=trust) as answer:
            return json.load(answer)

    form = {
        "grant_type": "client_credentials",
        "client_id": variables["AZURE_CLIENT_ID"],
        "client_secret": variables["AZURE_CLIENT_SECRET"],
        "scope": f"{url}/.default",
    }
    token = send(
        f"/{variables['AZURE_TENANT_ID']}/oauth2/v2.0/token", urlencode(form).encode(), "POST"
    )
    signed = {"Authorization": f"Bearer {token['access_token']}"}
    group = "/subscriptions/s/resourceGroups/mine?api-version=2024-03-01"
    body = json.dumps({"location": "westeurope"}).encode()
    send(group, body, "PUT", **signed, **{"Content-Type": "application/json"})
    assert send(group, **signed)["location"] == "westeurope"

    serving.send_signal(signal.SIGINT)
    assert serving.wait(timeout=10) == 0
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in processes))
    until(lambda: not list(tmp_path.glob("rehearsal-*")))
