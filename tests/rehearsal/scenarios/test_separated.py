"""Who prepares data and who trains, kept apart by a second stack, as the documents say it is done.

The programs of the documents that are not installed here are replaced by scripts: the Azure CLI.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from infra.outputs import from_dict, to_dict
from rehearsal.pulumi.deployment import SUBSCRIPTION, Deployment
from rehearsal.resources.roles import ASSIGNMENT, Roles
from rehearsal.simulator import Simulator
from tests.rehearsal.scenarios.cloud import OPTIONS, QUICK, TINY
from tests.rehearsal.support.newcomer import Newcomer, blocks
from tests.rehearsal.support.small_platform import Client, error

pytestmark = pytest.mark.rehearse_all

PAGE = "platform.md"
GROUPS = {
    "TRAINERS": "0d6b1f6e-0000-4000-8000-000000000011",
    "PREPARERS": "0d6b1f6e-0000-4000-8000-000000000012",
}
WORKSPACES = "Microsoft.MachineLearningServices/workspaces"
IDENTITIES = "Microsoft.ManagedIdentity/userAssignedIdentities"
FIRST = """
mkdir -p $HOME/pulumi-state
pulumi login file://$HOME/pulumi-state
pulumi stack init dev
make configure STACK=dev
pulumi config set --stack dev --path budget.start $(date +%Y-%m-01)
make up STACK=dev ARGS="--yes True"
"""
"""The stack of a team before it separates duties."""


NO_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": ""}


def outputs_of(newcomer, stack):
    line = f"pulumi stack output platform --stack {stack} --json > {stack}.json"
    newcomer.run(line, **NO_PASSPHRASE)
    return from_dict(json.loads((newcomer.clone / f"{stack}.json").read_text()))


def on_simulator(outputs, of_owner):
    """The outputs with the addresses that the owner of the data account knows: a stack takes those
    of an account that exists already to be in Azure's own domain, where nothing is rehearsed.
    """
    stores = {
        name: replace(getattr(outputs.datastores, name), blob_endpoint=store.blob_endpoint)
        for name, store in {"raw": of_owner.raw, "prepared": of_owner.prepared}.items()
    }
    return replace(outputs, datastores=replace(outputs.datastores, **stores))


@pytest.fixture(scope="module")
def separated(tmp_path_factory):
    """Both stacks, deployed as the document says, and a person of each group."""
    folder = tmp_path_factory.mktemp("separated")
    with (
        Simulator(folder / "azure", replace(OPTIONS, roles=True)) as azure,
        Deployment(azure, folder / "engine") as engine,
    ):
        account = {"id": SUBSCRIPTION, "tenantId": azure.options.tenant_id}
        answers = {f"az account show --query {k} --output tsv": v for k, v in account.items()}
        newcomer = Newcomer(folder, engine, answers)
        newcomer.run(FIRST, **NO_PASSPHRASE)
        [deploy] = blocks(PAGE, "separate: deploy")
        newcomer.run(deploy, **GROUPS, **NO_PASSPHRASE)
        people = {
            group: azure.environment_of(*azure.identity.add_client(groups=[id_])) | NO_PASSPHRASE
            for group, id_ in GROUPS.items()
        }
        stacks = {stack: outputs_of(newcomer, stack) for stack in ("dev", "dev-prep")}
        stacks["dev-prep"] = on_simulator(stacks["dev-prep"], stacks["dev"].datastores)
        (newcomer.clone / "dev-prep.json").write_text(json.dumps(to_dict(stacks["dev-prep"])))
        yield SimpleNamespace(azure=azure, newcomer=newcomer, people=people, stacks=stacks)


@pytest.fixture(scope="module")
def prepared(separated):
    """The output of the command that prepared photos, as one of those who prepare."""
    generator = np.random.default_rng(0)
    for number in range(20):
        folder = separated.newcomer.clone / "photos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (12, 16, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
    [prepare] = blocks(PAGE, "separate: prepare")
    prepare = prepare.replace("--stack dev-prep", "--outputs dev-prep.json")
    return separated.newcomer.run(prepare, **separated.people["PREPARERS"])


def workspace(separated, stack):
    """Id of the workspace of a stack."""
    outputs = separated.stacks[stack]
    group = f"/subscriptions/{outputs.subscription_id}/resourceGroups/{outputs.resource_group}"
    return f"{group}/providers/{WORKSPACES}/{outputs.workspace}"


def may_write(separated, store):
    """Names of the identities that may write in a container of the data account."""
    roles = Roles(separated.azure.resources, separated.azure.identity, required=True)
    return {
        one["name"]
        for one in separated.azure.resources.of_kind(IDENTITIES)
        if roles.allow(
            one["properties"]["principalId"], store.account, store.container, "write", "set/1"
        )
    }


def test_data_that_one_group_has_prepared_train_what_the_other_submits(separated, prepared):
    assert "registered" in prepared
    register, submit = blocks(PAGE, "separate: train")[0].splitlines()
    trainer = separated.people["TRAINERS"]
    assert "photos:" in separated.newcomer.run(register, **trainer)
    small = ["--name", "photos", "--nodes", "1", *QUICK, "--", *TINY, "--batch-size", "2"]
    said = separated.newcomer.run(f"{submit} {' '.join(small)} --epochs 3", **trainer)
    assert "photos-r1: training completed" in said


def test_both_stacks_have_one_account_of_data_and_nothing_else_in_common(separated):
    one, other = separated.stacks["dev"].datastores, separated.stacks["dev-prep"].datastores
    assert one.prepared.account == other.prepared.account
    assert one.results.account != other.results.account
    assert separated.stacks["dev"].vault_uri != separated.stacks["dev-prep"].vault_uri
    registries = {stack.registry_login_server for stack in separated.stacks.values()}
    assert len(registries) == 2


def test_only_the_identity_that_prepares_can_write_prepared_data(separated):
    store = separated.stacks["dev"].datastores.prepared
    assert may_write(separated, store) == {"hvd-dev-prep-id-preparation"}
    assert may_write(separated, replace(store, container="raw")) == set()


@pytest.mark.parametrize(
    ("group", "stack", "command"),
    [
        ("TRAINERS", "dev-prep", "prepare folder --raw photos --prepared mine"),
        ("PREPARERS", "dev", "submit --preset digits --nodes 1"),
    ],
)
def test_nobody_submits_to_the_workspace_of_the_others(separated, group, stack, command):
    person = separated.people[group]
    line = f".venv/bin/python -m jobs {command} --name stranger --stack {stack}"
    where = workspace(separated, stack)
    before = len(separated.azure.resources.of_kind(f"{WORKSPACES}/jobs", where))
    said = separated.newcomer.run(line, status=22, **person)
    assert "access denied" in said
    client = Client(separated.azure)
    sent = client.token(
        client_id=person["AZURE_CLIENT_ID"], client_secret=person["AZURE_CLIENT_SECRET"]
    )
    client.session.headers["Authorization"] = f"Bearer {sent.json()['access_token']}"
    for cluster in separated.stacks[stack].clusters.values():
        body = {"jobType": "Command", "command": "true",
                "computeId": f"{where}/computes/{cluster.name}"}  # fmt: skip
        answer = client.put(f"{where}/jobs/stranger", {"properties": body})
        assert error(answer) == (403, "AuthorizationFailed")
        assert f"over scope '{where}'" in answer.json()["error"]["message"]
    assert len(separated.azure.resources.of_kind(f"{WORKSPACES}/jobs", where)) == before


def test_the_second_stack_goes_and_leaves_the_data(separated, prepared):
    store = separated.stacks["dev"].datastores.prepared
    separated.newcomer.run("make teardown STACK=dev-prep YES=1", **NO_PASSPHRASE)
    container = separated.azure.blobs.container(store.account, store.container)
    assert list(container.list_blob_names(name_starts_with="photos/")), prepared
    on_account = [
        one["id"]
        for one in separated.azure.resources.of_kind(ASSIGNMENT)
        if f"/storageaccounts/{store.account}/" in one["id"].lower()
    ]
    assert on_account
    assert may_write(separated, store) == set()
