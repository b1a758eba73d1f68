"""The role of scientists who may submit jobs and create no clusters."""

import json
import subprocess
from fnmatch import fnmatchcase

from infra.catalog import roles
from infra.policies import pack
from infra.render import roles as owner
from infra.render.render import run
from infra.resources import ASSIGNMENT, DEFINITION, of_kind
from tests.infra.support.configurations import problem
from tests.infra.support.production import changed
from tests.infra.support.stacks import file_of, only, rendered, settings_of
from tests.infra.support.variants import GROUP_OF_PEOPLE, OPTIONS

LIMITED = OPTIONS["scientists limited to the clusters"]
EXISTING = OPTIONS["roles of the owner, one of them new"]
WORKSPACES = "Microsoft.MachineLearningServices/workspaces"
DECLARED = (
    "computes/write",
    "computes/delete",
    "datastores/write",
    "connections/write",
    "outboundRules/write",
    "privateEndpointConnections/write",
)
"""Operations on resources that the stack alone declares."""


def allows(permission, operation):
    """Whether Azure allows an operation by one permission of a role."""
    matching = {
        key: any(fnmatchcase(f"{WORKSPACES}/{operation}", pattern) for pattern in permission[key])
        for key in ("actions", "notActions")
    }
    return matching["actions"] and not matching["notActions"]


def given_on_workspace(stack):
    return [
        one.inputs["roleDefinitionId"].rpartition("/")[2]
        for one in of_kind(stack, ASSIGNMENT)
        if one.inputs["principalId"] == GROUP_OF_PEOPLE.format(2)
        and WORKSPACES in one.inputs["scope"]
    ]


def test_scientists_get_the_role_of_the_stack_alone():
    stack = rendered("dev", **LIMITED)
    defined = only(stack, DEFINITION)
    assert given_on_workspace(stack) == [defined.inputs["roleDefinitionId"]]
    assert defined.inputs["assignableScopes"] == [defined.inputs["scope"]]
    assert f"| {defined.inputs['roleName']} | `" in owner.declared(stack)
    without = rendered("dev", **LIMITED | {"people.existing_clusters_only": False})
    assert of_kind(without, DEFINITION) == []
    assert given_on_workspace(without) == [roles.AZUREML_DATA_SCIENTIST]


def test_the_role_submits_jobs_and_changes_nothing_that_the_stack_declares():
    [permission] = only(rendered("dev", **LIMITED), DEFINITION).inputs["permissions"]
    for usable in ("read", "jobs/write", "jobs/cancel/action", "models/versions/write",
                   "environments/versions/write", "computes/read", "datastores/read"):  # fmt: skip
        assert allows(permission, usable), usable
    for declared in (*DECLARED, "write", "delete", "onlineEndpoints/deployments/write"):
        assert not allows(permission, declared), declared


def test_who_serves_models_may_deploy_them():
    stack = rendered("dev", **LIMITED, serving=True)
    [permission] = only(stack, DEFINITION).inputs["permissions"]
    assert allows(permission, "onlineEndpoints/deployments/write")
    assert not any(allows(permission, one) for one in DECLARED)


def test_azures_wider_role_is_a_fault_where_the_limit_is_on():
    stack = rendered("dev", **LIMITED)
    wide = roles.definition_id("x", roles.AZUREML_DATA_SCIENTIST)
    wider = changed("scientists-workspace-data-scientist", "roleDefinitionId", wide, stack)
    found = {one.rule for one in pack.check(wider, settings_of("dev", **LIMITED))}
    assert "no-owner" in found


def test_the_owners_script_defines_the_role_before_it_is_assigned(tmp_path):
    needed = owner.needed(run("dev", EXISTING, file_of("dev")))
    script = owner.script("dev", needed)
    [own] = [one for one in needed if one["definition"]]
    lines = script.splitlines()
    [defines] = [at for at, line in enumerate(lines) if line.startswith("define ")]
    [assigns] = [at for at, line in enumerate(lines) if line.startswith(f"assign {own['name']} ")]
    assert defines < assigns
    assert own["role_id"] in lines[assigns]
    body = json.loads(own["definition"])["properties"]
    declared = only(rendered("dev", **LIMITED), DEFINITION).inputs
    for name in ("roleName", "permissions", "assignableScopes"):
        assert body[name] == declared[name]
    file = tmp_path / "assign.sh"
    file.write_text(script)
    subprocess.run(["bash", "-n", str(file)], check=True)


def test_a_limit_of_no_one_is_refused():
    said = problem(("people.existing_clusters_only", True))
    assert said.startswith("people.existing_clusters_only: limits the group people.scientists")
