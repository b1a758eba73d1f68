"""A stack whose roles the owner of the subscription assigns, deployed by a user who may not."""

import json
import os
import subprocess
from types import SimpleNamespace

import pytest

from infra.catalog import roles
from infra.render import roles as owner
from infra.render.render import run
from infra.resources import ASSIGNMENT
from rehearsal.options import Options
from rehearsal.pulumi.deployment import SUBSCRIPTION
from rehearsal.resources.roles import ASSIGNMENT as KIND
from rehearsal.resources.roles import DEFINITION
from rehearsal.simulator import Simulator
from tests.infra.support.stacks import rendered
from tests.rehearsal.scenarios.cloud import stack_in
from tests.rehearsal.support import azure_cli

pytestmark = pytest.mark.rehearse_all

UP = ("up", "--yes", "True")
LIMITED = {
    "roles": "existing",
    "people.scientists": "33333333-3333-3333-3333-333333333332",
    "people.existing_clusters_only": True,
}
WAITS = "the owner of the subscription has not assigned this role yet"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """An Azure whose deployer may assign no roles, the stack, and the owner's script."""
    folder = tmp_path_factory.mktemp("roles")
    with Simulator(folder / "azure", Options()) as azure, stack_in(azure, folder) as cloud:
        deployer = azure.environment["AZURE_CLIENT_ID"]
        azure.admin.forbid(deployer, r"^(PUT|DELETE) .*/roleAssignments/")
        for key, value in LIMITED.items():
            cloud.deployment.configure(key, str(value).lower())
        settings = LIMITED | {"subscription.id": SUBSCRIPTION}
        settings["subscription.tenant"] = azure.options.tenant_id
        needed = owner.needed(run("dev", settings))
        script = folder / "assign.sh"
        script.write_text(owner.script("dev", needed))
        ids = json.dumps({name: guid for guid, name in roles.NAMES.items()})
        path = azure_cli.write(folder / "bin", azure.url, ids)
        environment = {
            "PATH": f"{path}{os.pathsep}{os.environ['PATH']}",
            **azure.environment_of(*azure.identity.add_client()),
        }

        def assign():
            ended = subprocess.run(
                ["bash", str(script)], env=environment, capture_output=True, text=True, check=False
            )
            assert ended.returncode == 0, ended.stdout + ended.stderr
            return ended.stdout

        yield SimpleNamespace(azure=azure, cloud=cloud, needed=needed, assign=assign)


def kinds(world):
    return {one["type"] for one in world.azure.resources.below()}


def test_a_deployment_goes_from_role_to_role_and_assigns_none(world):
    said = world.cloud.jobs(*UP, status=1).words
    assert WAITS in said
    assert "make roles STACK=NAME ARGS=--script" in said
    assert "Microsoft.Network/privateEndpoints" in kinds(world)
    assert "Microsoft.MachineLearningServices/workspaces" not in kinds(world)
    assert "left out, as it does not exist yet" in world.assign()
    said = world.cloud.jobs(*UP, status=1).words
    assert WAITS in said
    assert "Microsoft.MachineLearningServices/workspaces" in kinds(world)
    assert "Microsoft.MachineLearningServices/workspaces/computes" not in kinds(world)
    assert "left out" not in world.assign()
    world.cloud.jobs(*UP)
    assert "Microsoft.MachineLearningServices/workspaces/computes" in kinds(world)
    assert "unchanged" in world.cloud.pulumi("preview", "--expect-no-changes")


def test_the_script_defines_the_role_that_scientists_get(world):
    [defined] = world.azure.resources.of_kind(DEFINITION)
    [excluded] = [one["notActions"] for one in defined["properties"]["permissions"]]
    assert "Microsoft.MachineLearningServices/workspaces/computes/write" in excluded
    given = [one["properties"]["roleDefinitionId"] for one in world.azure.resources.of_kind(KIND)]
    assert [one for one in given if one.endswith(defined["name"])] == [
        f"/subscriptions/{SUBSCRIPTION}/providers/{DEFINITION}/{defined['name']}"
    ]


def test_the_roles_are_those_that_the_stack_would_have_declared(world):
    declared = {
        (one.inputs["roleAssignmentName"], one.inputs["roleDefinitionId"].rpartition("/")[2],
         one.inputs.get("condition"))
        for one in rendered("dev", **LIMITED | {"roles": "declared"}, subscription__id=SUBSCRIPTION)
        if one.kind == ASSIGNMENT
    }  # fmt: skip
    made = {
        (one["name"], one["properties"]["roleDefinitionId"].rpartition("/")[2],
         one["properties"].get("condition"))
        for one in world.azure.resources.of_kind(KIND)
    }  # fmt: skip
    assert made == declared
