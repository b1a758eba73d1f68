"""Every rule, shown to fail on what breaks it and to pass on what keeps it.

`test_mutations` shows that each rule serves its purpose; these are decisions of the rules by the
settings of the stack.
"""

import dataclasses
import typing

import pytest

from common.annotations import Bounds
from infra.catalog import roles
from infra.leaves import SETTINGS as SETTINGS_CLASS
from infra.policies import pack
from infra.policies.stack import settings_of as settings_of_file
from infra.render.render import render
from infra.resources import Resource
from infra.rules.closed_world import RECORD
from tests.infra.render import reviewed
from tests.infra.support.configurations import STACKS
from tests.infra.support.production import (
    DATA,
    DEFAULT,
    GROUP,
    PUBLISHERS,
    SETTINGS,
    STACK,
    VAULT,
    WRITES_BLOBS,
    assignment,
    azure,
    changed,
)
from tests.infra.support.stacks import rendered, settings_of
from tests.infra.support.variants import OPTIONS, RECORDED

OPEN = OPTIONS["everything on"]


def found(stack, settings=SETTINGS):
    return [(one.rule, one.resource and one.resource.name) for one in pack.check(stack, settings)]


def added(*resources):
    return [*STACK, *resources]


def lock(scope, token="authorization:ManagementLockByScope"):
    return azure(token, "lock", {"scope": scope})


@pytest.mark.parametrize("name", RECORDED)
def test_no_rule_fires_on_any_option(name):
    stack, overrides = RECORDED[name]
    violations = pack.check(rendered(stack, **overrides), settings_of(stack, **overrides))
    assert [one.message for one in violations] == []


@pytest.mark.parametrize("name", STACKS)
def test_no_rule_fires_on_a_stack_of_the_repository(name):
    violations = pack.check(render(name, {}), settings_of_file(name))
    assert [violation.message for violation in violations] == []


def test_the_record_of_inputs_is_what_the_stacks_declare():
    assert RECORD.read_text(encoding="utf-8") == reviewed.text(), "run `make -C tools snapshots`"


def bounded(cls=SETTINGS_CLASS, prefix=""):
    """The bounds of every number in the settings of a stack, but of lists, mappings and quotas."""
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        hint, key = hints[field.name], f"{prefix}{field.name}"
        found = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Bounds)]
        if dataclasses.is_dataclass(hint):
            yield from bounded(hint, f"{key}.")
        elif found:
            yield key, found[0]


@pytest.mark.parametrize("end", ["least", "most"])
def test_settings_at_their_bounds_keep_every_rule(end):
    extremes = {key: getattr(bounds, f"at_{end}") for key, bounds in bounded()}
    # No network has room for as many nodes as Azure allows.
    fits = {key: value for key, value in extremes.items() if value and not key.endswith("_nodes")}
    fits["clusters.gpu.idle_seconds_before_scale_down"] = {"least": 60, "most": 3600}[end]
    assert len(fits) >= 10
    violations = pack.check(rendered("prod", **fits), settings_of("prod", **fits))
    assert [one.message for one in violations] == []


def test_a_stack_whose_owner_assigns_the_roles_declares_none():
    owned = dataclasses.replace(SETTINGS, roles="existing")
    assignments = {one.name for one in STACK if one.kind == "authorization:RoleAssignment"}
    assert {name for rule, name in found(STACK, owned) if rule == "no-owner"} == assignments


def test_names_of_rules_are_unique_and_usable_by_pulumi():
    names = [rule.name for rule in pack.ALL]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in names)


def test_a_violation_names_the_resource_the_input_and_the_remedy():
    [one] = pack.check(changed("workspace", "hbiWorkspace", setting=False), SETTINGS)
    assert one.message == (
        "workspace (machinelearningservices:Workspace): hbiWorkspace is false and must be true. "
        "Set it when the workspace is created: Azure cannot change hbiWorkspace later."
    )


def test_a_versioned_type_is_held_to_the_same_rules():
    stack = [
        dataclasses.replace(one, type=one.type.replace(":storage:", ":storage/v20240101:"))
        for one in changed("storage-data", "minimumTlsVersion", "TLS1_0")
    ]
    assert found(stack) == [("encrypted", "storage-data")]


def test_the_allowlisted_stack_would_break_the_private_profile():
    private = dataclasses.replace(settings_of("dev", **OPEN), profile="private")
    opened = {name for rule, name in found(rendered("dev", **OPEN), private) if "public" in rule}
    assert {"workspace", "storage-default", "storage-data"} <= opened


def test_the_identity_of_a_duty_that_no_cluster_has_gets_no_role():
    settings = settings_of("dev", **OPTIONS["another stack prepares"])
    writer = "preparation-prepared-storage-blob-data-contributor"
    assert ("least-privilege", writer) in found(rendered("dev"), settings)


@pytest.mark.parametrize(
    "role", [roles.OWNER, roles.BLOB_DATA_OWNER, "00000000-1111-2222-3333-444444444444"]
)
def test_a_role_that_the_catalogue_does_not_list_is_refused_before_it_is_assigned(role):
    assert ("no-owner", "bad") in found(added(assignment("bad", role, VAULT, "training")))


@pytest.mark.parametrize(
    "scope",
    [
        DATA,
        DATA.upper(),
        f"{DATA}/blobServices/default/containers/raw",
        GROUP,
        "/subscriptions/s",
        "/providers/Microsoft.Management/managementGroups/all",
        "/",
    ],
)
@pytest.mark.parametrize("role", sorted(WRITES_BLOBS - {roles.OWNER}))
def test_the_training_identity_may_write_training_data_through_no_scope(role, scope):
    bad = assignment("bad", role, scope, "training")
    assert ("least-privilege", "bad") in found(added(bad))


def test_an_account_whose_name_begins_alike_is_another_account():
    other = assignment("bad", roles.BLOB_DATA_READER, f"{DATA}2", "training")
    assert found(added(other)) == [("least-privilege", "bad")]


def test_a_publisher_may_write_data_and_nothing_more():
    fine = assignment("fine", roles.BLOB_DATA_CONTRIBUTOR, f"{DATA}/blobServices/default")
    assert found(added(fine)) == []
    for scope, role in [(DATA, roles.CONTRIBUTOR), (DEFAULT, roles.BLOB_DATA_CONTRIBUTOR)]:
        assert found(added(assignment("bad", role, scope))) == [("least-privilege", "bad")]


def test_a_group_that_the_settings_do_not_name_has_no_role():
    nobody = dataclasses.replace(
        SETTINGS, people=dataclasses.replace(SETTINGS.people, publishers=None)
    )
    [name] = [one.name for one in STACK if one.inputs.get("principalId") == PUBLISHERS]
    assert found(STACK, nobody) == [("least-privilege", name)]


def test_a_writer_too_many_is_found_in_an_account_that_the_stack_takes():
    theirs = OPTIONS["everything theirs"]
    reads = "training-prepared-storage-blob-data-reader"
    writes = f"/roleDefinitions/{roles.BLOB_DATA_CONTRIBUTOR}"
    stack = changed(reads, "roleDefinitionId", writes, rendered("dev", **theirs))
    assert found(stack, settings_of("dev", **theirs)) == [("least-privilege", reads)]


def test_what_is_production_is_a_setting_and_not_a_name():
    assert found(rendered("prod", protect=False), settings_of("prod", protect=False)) == []
    unprotected = [
        dataclasses.replace(one, options={**one.options, "protect": False}) for one in STACK
    ]
    held = {name for rule, name in found(unprotected) if rule == "protected"}
    assert {"data-prepared", "logs", "registry", "storage-data", "vault", "workspace"} <= held


def test_elsewhere_a_vault_may_be_purged_but_purging_is_never_switched_off():
    settings, path = settings_of("dev"), "properties.enablePurgeProtection"
    assert found(rendered("dev"), settings) == []
    broken = changed("vault", path, False, rendered("dev"))
    assert found(broken, settings) == [("recoverable", "vault")]


def test_a_deployed_state_repeats_ids_in_another_case():
    path = "privateLinkServiceConnections.0.privateLinkServiceId"
    assert found(changed("vault", path, VAULT.upper())) == []


def test_diagnostics_of_an_account_are_not_those_of_its_blobs():
    stack = changed("diagnostics-data-blob", "resourceUri", DATA)
    assert found(stack) == [("diagnostics", "storage-data")]


@pytest.mark.parametrize(
    "scope",
    [
        "/subscriptions/s",
        GROUP,
        GROUP + "/",
        f"{GROUP}/providers/Microsoft.Network/virtualNetworks/v",
    ],
)
def test_a_lock_on_a_group_subscription_or_network_is_refused(scope):
    assert ("no-group-lock", "lock") in found(added(lock(scope)))


def test_a_lock_on_one_resource_is_allowed():
    assert ("no-group-lock", "lock") not in found(added(lock(DATA)))


def test_a_lock_that_can_only_hold_a_group_is_refused_whatever_it_says():
    token = "authorization:ManagementLockAtResourceGroupLevel"
    assert ("no-group-lock", "lock") in found(added(lock(None, token)))


def test_components_and_the_stack_itself_are_no_types_of_other_providers():
    for type_ in ("platform:index:Part", "pulumi:pulumi:Stack"):
        assert found(added(Resource(type_, "r", {"x": 1}, {}, ""))) == []
