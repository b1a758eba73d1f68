"""Stacks interrupted, killed, changed and taken away, by the real engine and `python -m jobs`.

The tests of a class are one life of a stack, in their order.
"""

import json
import re
import signal
import threading

import pytest

from rehearsal.control_plane.http_messages import Request
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT
from rehearsal.simulator import Simulator
from tests.rehearsal.scenarios.cloud import stack_in
from tests.rehearsal.support.engine import exported
from tests.rehearsal.support.waiting import SECONDS, until

pytestmark = pytest.mark.rehearse_all

COMPUTES = "Microsoft.MachineLearningServices/workspaces/computes"
REGISTRIES = "Microsoft.ContainerRegistry/registries"
TEARDOWN = ("teardown", "--yes", "True")
HELD = {
    "azure-native:keyvault/v20260201:Vault",
    "azure-native:containerregistry:Registry",
    "azure-native:machinelearningservices:Workspace",
    "azure-native:storage:StorageAccount",
}
"""What does not go by the way, in production."""


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    with Simulator(tmp_path_factory.mktemp("azure"), Options()) as azure:
        yield azure


@pytest.fixture(scope="module")
def dev(azure, tmp_path_factory):
    with stack_in(azure, tmp_path_factory.mktemp("dev"), "dev") as cloud:
        yield cloud


@pytest.fixture(scope="module")
def prod(azure, tmp_path_factory):
    with stack_in(azure, tmp_path_factory.mktemp("prod"), "prod") as cloud:
        yield cloud


class Gate:
    """Holds requests back that match, until it is opened."""

    def __init__(self, azure, monkeypatch, match):
        self.came, self._open = threading.Event(), threading.Event()
        respond = azure.faults.respond

        def held(request, service):
            if re.search(match, f"{request.method} {request.path}"):
                self.came.set()
                self._open.wait(SECONDS)
            return respond(request, service)

        monkeypatch.setattr(azure.faults, "respond", held)

    def open(self):
        self._open.set()


@pytest.fixture
def gate(azure, monkeypatch):
    gates = []

    def make(match):
        gates.append(Gate(azure, monkeypatch, match))
        return gates[-1]

    yield make
    for opened in gates:
        opened.open()


def state(cloud):
    """Resources by name, and the operations under way when a deployment was killed."""
    return read(exported(cloud.deployment))


def read(document):
    deployment = document["deployment"]
    pending = deployment.get("pending_operations") or []
    resources = {
        name_of(resource): resource
        for resource in deployment.get("resources", [])
        if resource["type"].startswith("azure-")
    }
    return resources, {name_of(one["resource"]): one["type"] for one in pending}


def name_of(resource):
    return resource["urn"].rpartition("::")[2]


def makes_only(cloud, name):
    """Whether an `up` under way has recorded all operations that it began, but one, and begins no
    more."""
    # Between two others, one may be the only one for a moment.
    looks = [cloud.deployment.run("stack", "export") for _ in range(3)]
    # The state is written anew all the time, and empty for a moment.
    if any(look.returncode for look in looks):
        return False
    states = [read(json.loads(look.stdout)) for look in looks]
    return all(pending == {name: "creating"} for _, pending in states) and (
        states[0][0].keys() == states[-1][0].keys()
    )


def is_unchanged(cloud):
    return "unchanged" in cloud.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes")


def sizes(azure):
    """VM sizes of the clusters, by the first part of their names."""
    return {
        cluster["name"].partition("-")[0]: cluster["properties"]["properties"]["vmSize"]
        for cluster in azure.resources.of_kind(COMPUTES)
    }


class TestDev:
    def test_ctrl_c_in_an_up_leaves_nothing_half_recorded(self, azure, dev, gate):
        workspace = gate("PUT .*MachineLearningServices/workspaces/[^/]+$")
        up = dev.start("up", "--yes", "True")
        up.wait_for(workspace.came.is_set)
        up.interrupt()
        up.wait_for(lambda: "^C received" in up.words)
        workspace.open()
        assert up.wait() == 130, up.words
        assert "run the same command again to continue" in up.err
        resources, pending = state(dev)
        assert pending == {}
        assert "workspace" in resources
        assert "cluster-build" not in resources
        assert all(azure.resources.get(resource["id"]) for resource in resources.values())

    def test_the_same_command_again_completes(self, dev):
        up = dev.jobs("up", "--yes", "True", "--json")
        assert json.loads(up.out)["stack"] == "dev"
        assert is_unchanged(dev)

    def test_another_vm_size_is_refused_by_azure_and_nothing_is_lost(self, azure, dev):
        dev.deployment.configure("clusters.preparation.size", "Standard_D16ads_v5")
        refusal = "The parameter underlyingResourceAction is required."
        azure.admin.fault(
            "DELETE .*/computes/", status=400, code="ValidationError", message=refusal
        )
        up = dev.jobs("up", "--yes", "True", status=1)
        assert refusal in up.out
        assert "python -m jobs teardown --cluster prep-" in up.err
        assert sizes(azure)["prep"] == "Standard_D8ads_v5"

    def test_a_deleted_cluster_is_made_anew(self, azure, dev):
        dev.jobs("teardown", "--cluster", "preparation", "--yes", "True")
        assert set(sizes(azure)) == {"gpu", "build"}
        dev.jobs("up", "--refresh", "True", "--yes", "True")
        assert sizes(azure)["prep"] == "Standard_D16ads_v5"
        assert is_unchanged(dev)

    def test_a_teardown_leaves_nothing_and_a_second_one_is_harmless(self, azure, dev):
        ended = dev.jobs(*TEARDOWN, "--poll-seconds", "0.2", "--json")
        assert json.loads(ended.out)["left"] == []
        assert dev.groups == []
        assert not (ROOT / ".teardown" / "dev.json").exists()
        azure.admin.forget_requests()
        ended = dev.jobs(*TEARDOWN, "--json")
        assert json.loads(ended.out) == {"stack": "dev", "done": [], "left": []}
        assert azure.requests == []


class TestProd:
    def test_after_a_kill_the_locked_stack_says_what_to_do(self, azure, prod, gate):
        registry = gate("PUT .*/registries/[^/]+$")
        up = prod.start("up", "--yes", "True")
        up.wait_for(lambda: makes_only(prod, "registry"))
        assert registry.came.is_set()
        up.kill()
        assert up.status == -signal.SIGKILL
        ended = prod.jobs("up", "--yes", "True", status=1)
        assert "a deployment is creating registry, or was killed" in ended.err
        assert "pulumi cancel --yes --stack prod" in ended.err
        # Azure continues the operation.
        registry.open()
        until(lambda: azure.resources.of_kind(REGISTRIES))

    def test_it_is_repaired_as_it_was_said(self, azure, prod):
        refused = prod.deployment.run("refresh", "--yes", "--clear-pending-creates")
        assert "the stack is currently locked" in refused.stderr
        prod.pulumi("cancel", "--yes")
        prod.pulumi("refresh", "--yes", "--clear-pending-creates")
        ended = prod.jobs("up", "--yes", "True", status=1)
        assert "exists in the stack's group, but Pulumi does not know it" in ended.err
        (registry,) = azure.resources.of_kind(REGISTRIES)
        azure.resources.respond(Request("DELETE", registry["id"]))
        prod.jobs("up", "--yes", "True")
        assert is_unchanged(prod)

    def test_a_lock_alone_is_told_too(self, prod, gate):
        group = gate("GET .*/resourceGroups/[^/]+$")
        up = prod.start("up", "--refresh", "True", "--yes", "True")
        up.wait_for(group.came.is_set)
        up.kill()
        group.open()
        assert up.status == -signal.SIGKILL
        ended = prod.jobs("up", "--yes", "True", status=1)
        assert "the stack is currently locked by 1 lock(s)" in ended.err
        assert "stack prod: is locked" in ended.err
        prod.pulumi("cancel", "--yes")
        assert is_unchanged(prod)

    def test_a_teardown_is_refused_before_anything_is_deleted(self, prod):
        before = prod.resources()
        assert {one["type"] for one in prod.state() if one.get("protect")} >= HELD
        ended = prod.jobs(*TEARDOWN, status=1)
        assert "resources are protected" in ended.err
        assert "pulumi state unprotect --all --stack prod" in ended.err
        assert prod.resources() == before

    def test_pulumis_own_destroy_stops_in_its_preview(self, prod):
        before = prod.resources()
        ended = prod.deployment.run("destroy", "--yes")
        assert ended.returncode != 0
        assert "cannot be deleted" in ended.stdout + ended.stderr
        assert prod.resources() == before

    def test_unprotected_it_goes_but_for_the_vault_which_azure_keeps(self, prod):
        prod.pulumi("state", "unprotect", "--all", "--yes")
        for _ in range(2):
            ended = prod.jobs(*TEARDOWN, "--poll-seconds", "0.2", "--json", status=1)
            (left,) = json.loads(ended.out)["left"]
            assert left["what"].startswith("deleted vault ")
            assert "has purge protection" in left["why"]
            assert prod.groups == []
            assert state(prod) == ({}, {})
