"""The roles that the platform declares are enough, and no more than that, where they are asked for.

The unchanged program, deployed by Pulumi's engine to an Azure that refuses principals without a
role.
"""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from infra.outputs import from_dict
from rehearsal.options import Options
from rehearsal.pulumi.deployment import ROOT, Deployment
from rehearsal.resources.roles import ASSIGNMENT, CONTRIBUTOR, Roles
from rehearsal.simulator import Simulator
from tests.jobs.support.folders import write_shards
from tests.jobs.support.tiny import TRAINED, begin
from tests.rehearsal.support.engine import ran
from tests.rehearsal.support.raw_runs import Runs, failure
from tests.rehearsal.support.small_platform import SUBSCRIPTION, Client, give
from tests.rehearsal.support.waiting import SECONDS

pytestmark = pytest.mark.rehearse_all

PUBLISHERS = "0d6b1f6e-0000-4000-8000-000000000001"
SCIENTISTS = "0d6b1f6e-0000-4000-8000-000000000002"
WORKSPACES = "Microsoft.MachineLearningServices/workspaces"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    options = Options(roles=True, allocation_seconds=0.05, sync_seconds=0.1, max_idle_seconds=1.0)
    with Simulator(tmp_path_factory.mktemp("azure"), options) as azure:
        give(azure, azure.environment["AZURE_CLIENT_ID"], CONTRIBUTOR, SUBSCRIPTION)
        yield azure


@pytest.fixture(scope="module")
def deployed(azure, tmp_path_factory):
    """The dev stack with two groups of people; its outputs, and the folder of their file."""
    folder = tmp_path_factory.mktemp("pulumi")
    with Deployment(azure, folder) as deployment:
        deployment.configure("people.publishers", PUBLISHERS)
        deployment.configure("people.scientists", SCIENTISTS)
        deployment.configure("people.existing_clusters_only", "true")
        ran(deployment, "up", "--yes", "--skip-preview")
        text = ran(deployment, "stack", "output", "platform", "--json")
    file = folder / "platform.json"
    file.write_text(text)
    outputs = from_dict(json.loads(text))
    group = f"/subscriptions/{outputs.subscription_id}/resourceGroups/{outputs.resource_group}"
    workspace = f"{group}/providers/{WORKSPACES}/{outputs.workspace}"
    azure.put(f"{workspace}/environments/image/versions/1", "", {"properties": {"image": "x:1"}})
    return SimpleNamespace(outputs=outputs, file=file, workspace=workspace)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("data") / "set")


def jobs(azure, deployed, groups, *arguments):
    """Run a command as a program that has just been registered in groups."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    signed_in = azure.environment_of(*azure.identity.add_client(groups=groups))
    return subprocess.run(
        [sys.executable, "-m", "jobs", *map(str, arguments)],
        cwd=ROOT, env={**kept, **signed_in, "JOBS_OUTPUTS": str(deployed.file)},
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def upload(azure, deployed, groups, shards, folder):
    return jobs(azure, deployed, groups, "upload", shards, "--to", f"prepared/{folder}")


def test_who_is_in_both_groups_publishes_data(azure, deployed, shards):
    ended = upload(azure, deployed, [PUBLISHERS, SCIENTISTS], shards, "published")
    assert ended.returncode == 0, ended.stderr
    assert "registered as published:" in ended.stdout


@pytest.mark.parametrize("groups", [[], [SCIENTISTS]], ids=["nobody", "a scientist"])
def test_who_is_no_publisher_is_told_what_it_takes(azure, deployed, shards, groups):
    ended = upload(azure, deployed, groups, shards, "refused")
    assert ended.returncode == 22, ended.stdout
    store = deployed.outputs.datastores.prepared
    for part in (f"container prepared of {store.account}: access denied",
                 "AuthorizationPermissionMismatch", "Storage Blob Data Contributor",
                 "people.publishers"):  # fmt: skip
        assert part in ended.stderr
    there = azure.blobs.container(store.account, store.container)
    assert list(there.list_blob_names(name_starts_with="refused")) == []


def test_a_run_could_start_for_a_scientist_and_for_nobody_else(azure, deployed):
    assert "ok    storage:" in jobs(azure, deployed, [SCIENTISTS], "preflight").stdout
    said = jobs(azure, deployed, [PUBLISHERS], "preflight").stdout
    assert "STOP  storage:" in said
    assert "people.scientists" in said


@pytest.fixture(scope="module")
def runs(azure, deployed):
    store = deployed.outputs.datastores.prepared
    azure.blobs.container(store.account, "prepared").upload_blob("in/1", b"one")
    return Runs(azure, deployed)


def test_training_reads_data_and_writes_results_alone(azure, deployed, runs):
    line = "cp ${{inputs.reads_data}}/1 ${{outputs.writes_run}}/1"
    ended = runs.job("gpu", line, reads_data="prepared", writes_run="results")
    assert ended["status"] == "Completed", ended
    store = deployed.outputs.datastores.results
    results = azure.blobs.container(store.account, store.container)
    assert results.download_blob("runs/out/1").readall() == b"one"
    said = failure(runs.job("gpu", "true", writes_data="prepared"))
    assert "to write the job's output writes_data, container prepared" in said
    assert "acts as hvd-dev-id-training" in said


BLOBSTORE = "workspaceblobstore"
CONTEXT = "environments/trainer-cpu/1/Dockerfile"
CODE, DEFAULT_OUTPUT = "LocalUpload/1/docker/Dockerfile", "azureml/job/model/weights"


@pytest.mark.parametrize(
    ("role", "account", "container", "path", "reads", "writes"),
    [
        ("training", "default", "azureml", "ExperimentRun/dcid.job/user_logs/std.txt", True, True),
        ("training", "default", BLOBSTORE, DEFAULT_OUTPUT, True, True),
        ("training", "default", BLOBSTORE, CODE, True, False),
        ("training", "default", "code-of-a-job", "train.py", True, False),
        ("training", "default", "results", "runs/night/checkpoints/1", True, True),
        ("training", "default", "results", "models/night/1/weights", True, False),
        ("training", "default", "results", CONTEXT, True, False),
        ("training", "data", "prepared", "set/1", True, False),
        ("training", "data", "raw", "1.jpg", False, False),
        ("preparation", "default", "azureml", "ExperimentRun/dcid.job/logs/1", True, True),
        ("preparation", "default", BLOBSTORE, CODE, True, False),
        ("preparation", "default", "code-of-a-job", "train.py", True, False),
        ("preparation", "data", "prepared", "set/1", True, True),
        ("preparation", "data", "raw", "1.jpg", True, False),
        ("preparation", "default", "results", "runs/night/checkpoints/1", False, False),
        ("build", "default", "azureml", "ImageLogs/build.log", True, True),
        ("build", "default", "results", CONTEXT, True, False),
        ("build", "default", "results", "runs/night/checkpoints/1", False, False),
        ("build", "default", BLOBSTORE, CODE, True, False),
        ("build", "default", BLOBSTORE, DEFAULT_OUTPUT, True, False),
        ("build", "data", "raw", "1.jpg", False, False),
        ("build", "data", "prepared", "set/1", False, False),
    ],
)
def test_jobs_reach_the_containers_that_they_need_and_no_others(
    azure, deployed, role, account, container, path, reads, writes
):
    stores = deployed.outputs.datastores
    name = {"default": stores.results.account, "data": stores.prepared.account}[account]
    if container == BLOBSTORE:
        default = azure.resources.get(f"{deployed.workspace}/datastores/{BLOBSTORE}")
        container = default["properties"]["containerName"]
    (identity,) = [
        one["properties"]["principalId"]
        for one in azure.resources.of_kind("Microsoft.ManagedIdentity/userAssignedIdentities")
        if one["name"] == f"hvd-dev-id-{role}"
    ]
    roles = Roles(azure.resources, azure.identity, required=True)
    assert roles.allow(identity, name, container, "read", path) is reads
    assert roles.allow(identity, name, container, "write", path) is writes


@pytest.fixture
def without_roles(azure, deployed):
    """Removes the roles of training's identity on an account, and assigns them again."""
    removed = []

    def remove(store):
        (identity,) = [
            one["properties"]["principalId"]
            for one in azure.resources.of_kind("Microsoft.ManagedIdentity/userAssignedIdentities")
            if one["properties"]["clientId"] == deployed.outputs.clusters["gpu"].identity_client_id
        ]
        (assignment,) = [
            one
            for one in azure.resources.of_kind(ASSIGNMENT)
            if one["properties"]["principalId"] == identity
            and f"/{store.account}/blobServices/default/containers/{store.container}/" in one["id"]
        ]
        assert Client(azure).ask("DELETE", assignment["id"]).status_code == 200
        removed.append(assignment)

    yield remove
    for assignment in removed:
        azure.put(assignment["id"], "", {"properties": assignment["properties"]})


def test_without_its_role_on_the_data_training_fails_and_says_so(deployed, runs, without_roles):
    store = deployed.outputs.datastores.prepared
    folders = {"reads_data": "prepared", "writes_run": "results"}
    assert runs.job("gpu", "true", **folders)["status"] == "Completed"
    without_roles(store)
    said = failure(runs.job("gpu", "true", **folders))
    for part in ("to read the job's input reads_data", f"container prepared of {store.account}",
                 "AuthorizationPermissionMismatch", "acts as hvd-dev-id-training"):  # fmt: skip
        assert part in said


def test_who_follows_a_run_that_lacks_a_role_learns_of_it(azure, deployed, without_roles):
    store = deployed.outputs.datastores.results
    without_roles(store)
    platform = SimpleNamespace(azure=azure, outputs=deployed.outputs, workspace=deployed.workspace)
    begin(platform, "roleless", TRAINED, cluster=deployed.outputs.clusters["gpu"])
    ended = jobs(azure, deployed, [SCIENTISTS], "follow", "roleless")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    said = ended.stdout + ended.stderr
    for part in ("has no role on a container", "make up",
                 f"container {store.container} of {store.account}"):  # fmt: skip
        assert part in said
