"""The jump machine goes up and down, and people work from it, as the page on the platform says.

The programs of the page that are not installed here are replaced by scripts: the Azure CLI. Parts
that the page calls not tried are not here either: nothing runs in a machine of the simulator.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from infra.outputs import from_dict
from rehearsal.pulumi.deployment import SUBSCRIPTION, Deployment
from rehearsal.simulator import Simulator
from tests.rehearsal.scenarios.cloud import OPTIONS, QUICK, TINY
from tests.rehearsal.support.newcomer import Newcomer, blocks

pytestmark = pytest.mark.rehearse_all

PAGE = "platform.md"
PEOPLE = "0d6b1f6e-0000-4000-8000-000000000021"
NO_PASSPHRASE = {"PULUMI_CONFIG_PASSPHRASE": ""}
MACHINE = "Microsoft.Compute/virtualMachines"
BASTION = "Microsoft.Network/bastionHosts"
SCHEDULE = "Microsoft.DevTestLab/schedules"
BEFORE = """
mkdir -p $HOME/pulumi-state
pulumi login file://$HOME/pulumi-state
pulumi stack init dev
make configure STACK=dev
pulumi config set --stack dev --path budget.start $(date +%Y-%m-01)
"""
"""A stack that is not deployed yet."""


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    """The stack with its jump machine, deployed as the page says, and a member of the group."""
    folder = tmp_path_factory.mktemp("reached")
    with (
        Simulator(folder / "azure", replace(OPTIONS, roles=True)) as azure,
        Deployment(azure, folder / "engine") as engine,
    ):
        account = {"id": SUBSCRIPTION, "tenantId": azure.options.tenant_id}
        answers = {f"az account show --query {k} --output tsv": v for k, v in account.items()}
        newcomer = Newcomer(folder, engine, answers)
        newcomer.run(BEFORE, **NO_PASSPHRASE)
        [deploy] = blocks(PAGE, "access: deploy")
        newcomer.run(deploy, PEOPLE=PEOPLE, **NO_PASSPHRASE)
        client = azure.identity.add_client(groups=[PEOPLE])
        person = azure.environment_of(*client) | NO_PASSPHRASE
        yield SimpleNamespace(azure=azure, newcomer=newcomer, person=person)


def test_the_outputs_name_the_machine_and_its_bastion(reached):
    said = reached.newcomer.run(
        "pulumi stack output platform --stack dev --json 2>/dev/null > out.json && cat out.json",
        **NO_PASSPHRASE,
    )
    outputs = from_dict(json.loads((reached.newcomer.clone / "out.json").read_text()))
    assert outputs.jump_machine is not None, said
    [machine] = reached.azure.resources.of_kind(MACHINE)
    [bastion] = reached.azure.resources.of_kind(BASTION)
    assert (outputs.jump_machine.machine, outputs.jump_machine.bastion) == (
        machine["id"],
        bastion["id"],
    )
    assert machine["identity"]["principalId"]


def test_nothing_changes_when_it_is_deployed_again(reached):
    again = "pulumi preview --stack dev --expect-no-changes"
    reached.newcomer.run(again, **NO_PASSPHRASE)


def test_somebody_of_the_group_submits_and_follows_a_job_as_the_page_says(reached):
    status, submit, follow, logs = blocks(PAGE, "access: work")[0].splitlines()
    person = reached.person
    said = reached.newcomer.run(status, **person)
    assert "jump machine hvd-dev-jump" in said
    assert "off at 19:00 UTC" in said
    small = ["--nodes", "1", *QUICK, "--", *TINY, "--epochs", "3"]
    reached.newcomer.run(f"{submit} {' '.join(small)}", **person)
    assert "training completed" in reached.newcomer.run(f"{follow} --poll-seconds 0.3", **person)
    assert reached.newcomer.run(logs, **person)


def test_a_second_stack_uses_its_network_as_a_hub_and_its_registry(reached):
    [share] = blocks(PAGE, "access: share")
    reached.newcomer.run(share, **NO_PASSPHRASE)
    assert len(reached.azure.resources.of_kind("Microsoft.ContainerRegistry/registries")) == 1
    networks = reached.azure.resources.of_kind("Microsoft.Network/virtualNetworks")
    peers = {
        one["name"]: [
            peering["properties"]["remoteVirtualNetwork"]["id"].rpartition("/")[2]
            for peering in one["properties"]["virtualNetworkPeerings"]
        ]
        for one in networks
    }
    assert peers == {"hvd-dev-vnet": ["hvd-dev-prep-vnet"], "hvd-dev-prep-vnet": ["hvd-dev-vnet"]}
    reached.newcomer.run(
        """
        pulumi config rm --stack dev --path network
        make up STACK=dev ARGS="--yes True"
        make teardown STACK=dev-prep YES=1
        """,
        **NO_PASSPHRASE,
    )


def test_it_goes_alone_and_with_the_stack(reached):
    off = """
    pulumi config rm --stack dev --path access
    make up STACK=dev ARGS="--yes True"
    """
    reached.newcomer.run(off, **NO_PASSPHRASE)
    for kind in (MACHINE, BASTION, SCHEDULE, "Microsoft.Network/networkInterfaces"):
        assert reached.azure.resources.of_kind(kind) == []
    reached.newcomer.run("make teardown STACK=dev YES=1", **NO_PASSPHRASE)
    assert reached.azure.resources.of_kind("Microsoft.Resources/resourceGroups") == []
