"""Stacks interrupted, killed, changed and taken away, by the real engine and `python -m jobs`.

The tests of a class are one life of a stack, in their order.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from rehearsal.control_plane.http_messages import Request
from rehearsal.loopback import Loopback
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, SUBSCRIPTION, Deployment

pytestmark = pytest.mark.rehearse_all

SECONDS = 600
INTERRUPTIBLE = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, "-m", "jobs", *sys.argv[1:]])
"""
"""Of Python: a program that is started in the background has Ctrl-C ignored."""
COMPUTES = "Microsoft.MachineLearningServices/workspaces/computes"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with Loopback(tmp_path_factory.mktemp("azure"), Options()) as azure:
        yield azure


@pytest.fixture(scope="module")
def dev(azure, tmp_path_factory):
    with Deployment(azure, tmp_path_factory.mktemp("dev"), "dev") as deployment:
        yield deployment


@pytest.fixture(scope="module")
def prod(azure, tmp_path_factory):
    with Deployment(azure, tmp_path_factory.mktemp("prod"), "prod") as deployment:
        yield deployment


class Ended:
    """A command that has ended, and what it said."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __str__(self):
        return f"status {self.status}\n{self.out}\n{self.err}"


class Command:
    """`python -m jobs` on a stack, in a process group of its own."""

    def __init__(self, deployment, folder, *arguments):
        self._files = [folder / f"{name}-{time.monotonic_ns()}" for name in ("out", "err")]
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", INTERRUPTIBLE, *arguments, "--stack", deployment.stack],
                cwd=ROOT,
                env=deployment.command_environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def kill(self, number):
        """Send a signal to all of its processes, as a terminal does."""
        os.killpg(self.process.pid, number)

    @property
    def has_ended(self):
        return self.process.poll() is not None

    @property
    def said(self):
        return "".join(self._words())

    def wait(self):
        status = self.process.wait(SECONDS)
        return Ended(status, *self._words())

    def _words(self):
        return [file.read_text(encoding="utf-8") for file in self._files]


class Gate:
    """Holds requests back that match, until it is opened."""

    def __init__(self, azure, monkeypatch, match):
        self.came, self._open = threading.Event(), threading.Event()
        response = azure.faults.response

        def held(request):
            if re.search(match, f"{request.method} {request.path}"):
                self.came.set()
                self._open.wait(SECONDS)
            return response(request)

        monkeypatch.setattr(azure.faults, "response", held)

    def open(self):
        self._open.set()


@pytest.fixture
def gate(azure, monkeypatch):
    made = []

    def make(match):
        made.append(Gate(azure, monkeypatch, match))
        return made[-1]

    yield make
    for one in made:
        one.open()


@pytest.fixture
def jobs(tmp_path):
    return lambda deployment, *arguments: Command(deployment, tmp_path, *arguments).wait()


@pytest.fixture
def started(tmp_path):
    return lambda deployment, *arguments: Command(deployment, tmp_path, *arguments)


def until(reached, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def pulumi(deployment, *arguments):
    ended = deployment.run(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def makes_only(deployment, name):
    """Whether an `up` that goes on has all recorded that it began, but one."""
    ended = deployment.run("stack", "export")
    # It is written anew all the time, and empty for a moment.
    return ended.returncode == 0 and read(ended.stdout)[1] == {name: "creating"}


def state(deployment):
    return read(pulumi(deployment, "stack", "export"))


def read(exported):
    """Resources by name, and what was going on when a deployment was killed."""
    document = json.loads(exported)["deployment"]
    resources = [one for one in document.get("resources", []) if one["type"].startswith("azure-")]
    named = {one["urn"].rpartition("::")[2]: one for one in resources}
    pending = document.get("pending_operations") or []
    return named, {one["resource"]["urn"].rpartition("::")[2]: one["type"] for one in pending}


def groups(azure):
    return {one["name"] for one in azure.resources.of_kind("Microsoft.Resources/resourceGroups")}


def everything(azure):
    """Ids of all that Azure has."""
    return {one["id"] for one in azure.resources.below(f"/subscriptions/{SUBSCRIPTION}")}


def unchanged(deployment):
    said = pulumi(deployment, "up", "--yes", "--skip-preview", "--expect-no-changes")
    return "unchanged" in said


class TestDev:
    def test_ctrl_c_in_an_up_leaves_nothing_half_recorded(self, azure, dev, started, gate):
        workspace = gate("PUT .*MachineLearningServices/workspaces/[^/]+$")
        up = started(dev, "up", "--yes", "True")
        until(lambda: workspace.came.is_set() or up.has_ended)
        up.kill(signal.SIGINT)
        until(lambda: "^C received" in up.said or up.has_ended)
        workspace.open()
        ended = up.wait()
        assert ended.status == 130, str(ended)
        assert "to go on, give the same command again" in ended.err
        named, pending = state(dev)
        assert pending == {}
        assert "workspace" in named
        assert "cluster-build" not in named
        assert [name for name, one in named.items() if azure.resources.get(one["id"]) is None] == []

    def test_the_same_command_again_completes(self, dev, jobs):
        ended = jobs(dev, "up", "--yes", "True", "--json")
        assert ended.status == 0, str(ended)
        assert json.loads(ended.out)["stack"] == "dev"
        assert unchanged(dev)

    def test_another_size_of_nodes_is_refused_by_azure_and_nothing_is_lost(self, azure, dev, jobs):
        dev.configure("clusters.preparation.size", "Standard_D16ads_v5")
        ended = jobs(dev, "up", "--yes", "True")
        assert ended.status == 1, str(ended)
        assert "underlyingResourceAction" in ended.out
        assert "python -m jobs teardown --cluster prep-" in ended.err
        assert self.sizes(azure)["prep"] == "Standard_D8ads_v5"

    def test_a_deleted_cluster_is_made_anew(self, azure, dev, jobs):
        ended = jobs(dev, "teardown", "--cluster", "preparation", "--yes", "True")
        assert ended.status == 0, str(ended)
        assert set(self.sizes(azure)) == {"gpu", "build"}
        ended = jobs(dev, "up", "--refresh", "True", "--yes", "True")
        assert ended.status == 0, str(ended)
        assert self.sizes(azure)["prep"] == "Standard_D16ads_v5"
        assert unchanged(dev)

    def test_a_teardown_leaves_nothing_and_a_second_one_is_harmless(self, azure, dev, jobs):
        ended = jobs(dev, "teardown", "--yes", "True", "--poll-seconds", "0.2", "--json")
        assert ended.status == 0, str(ended)
        assert json.loads(ended.out)["left"] == []
        assert groups(azure) == set()
        assert not (ROOT / ".teardown" / "dev.json").exists()
        azure.admin.forget_requests()
        ended = jobs(dev, "teardown", "--yes", "True", "--json")
        assert ended.status == 0, str(ended)
        assert json.loads(ended.out) == {"stack": "dev", "done": [], "left": []}
        assert azure.requests == []

    @staticmethod
    def sizes(azure):
        """Of the clusters, by the first part of their names."""
        return {
            one["name"].partition("-")[0]: one["properties"]["properties"]["vmSize"]
            for one in azure.resources.of_kind(COMPUTES)
        }


class TestProd:
    def test_after_a_kill_the_stack_is_locked_and_it_is_said_what_to_do(
        self, azure, prod, started, jobs, gate
    ):
        registry = gate("PUT .*/registries/[^/]+$")
        up = started(prod, "up", "--yes", "True")
        until(lambda: makes_only(prod, "registry") or up.has_ended)
        assert registry.came.is_set()
        up.kill(signal.SIGKILL)
        assert up.wait().status == -signal.SIGKILL
        ended = jobs(prod, "up", "--yes", "True")
        assert ended.status == 1, str(ended)
        assert "a deployment makes registry at this moment, or was killed" in ended.err
        assert "pulumi cancel --yes --stack prod" in ended.err
        # Azure goes on with what it was asked for.
        registry.open()
        registries = "Microsoft.ContainerRegistry/registries"
        until(lambda: azure.resources.of_kind(registries))

    def test_it_is_repaired_as_it_was_said(self, azure, prod, jobs):
        refused = prod.run("refresh", "--yes", "--clear-pending-creates")
        assert "the stack is currently locked" in refused.stderr
        pulumi(prod, "cancel", "--yes")
        pulumi(prod, "refresh", "--yes", "--clear-pending-creates")
        ended = jobs(prod, "up", "--yes", "True")
        assert ended.status == 1, str(ended)
        assert "cannot create already existing resource" in ended.out
        (there,) = azure.resources.of_kind("Microsoft.ContainerRegistry/registries")
        azure.resources.respond(Request("DELETE", there["id"]))
        ended = jobs(prod, "up", "--yes", "True")
        assert ended.status == 0, str(ended)
        assert unchanged(prod)

    def test_a_lock_alone_is_told_too(self, azure, prod, jobs, started, gate):
        group = gate("GET .*/resourceGroups/[^/]+$")
        up = started(prod, "up", "--refresh", "True", "--yes", "True")
        until(lambda: group.came.is_set() or up.has_ended)
        up.kill(signal.SIGKILL)
        group.open()
        assert up.wait().status == -signal.SIGKILL
        ended = jobs(prod, "up", "--yes", "True")
        assert ended.status == 1, str(ended)
        assert "the stack is currently locked by 1 lock(s)" in ended.err
        assert "stack prod: is locked" in ended.err
        pulumi(prod, "cancel", "--yes")
        assert unchanged(prod)

    def test_a_teardown_is_refused_before_anything_is_deleted(self, azure, prod, jobs):
        before = everything(azure)
        ended = jobs(prod, "teardown", "--yes", "True")
        assert ended.status == 1, str(ended)
        assert "resources are protected" in ended.err
        assert "pulumi state unprotect --all --stack prod" in ended.err
        assert everything(azure) == before

    def test_pulumis_own_destroy_stops_in_its_preview(self, azure, prod):
        before = everything(azure)
        ended = prod.run("destroy", "--yes")
        assert ended.returncode != 0
        assert "cannot be deleted" in ended.stdout + ended.stderr
        assert everything(azure) == before

    def test_unprotected_it_goes_but_for_the_vault_which_azure_keeps(self, azure, prod, jobs):
        pulumi(prod, "state", "unprotect", "--all", "--yes")
        for _ in range(2):
            ended = jobs(prod, "teardown", "--yes", "True", "--poll-seconds", "0.2", "--json")
            assert ended.status == 1, str(ended)
            (left,) = json.loads(ended.out)["left"]
            assert left["what"].startswith("deleted vault ")
            assert "has purge protection" in left["why"]
            assert groups(azure) == set()
            assert state(prod) == ({}, {})
