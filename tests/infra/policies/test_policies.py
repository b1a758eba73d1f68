"""Every rule, shown to fail on what breaks it and to pass on what keeps it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import roles
from infra.policies import pack
from infra.policies.access_rules import ADMINISTRATORS, training_accounts
from infra.policies.governance_rules import TAGGED
from infra.policies.rule import ResourceRule, StackRule
from infra.policies.service_rules import idle_minutes
from infra.resources import Resource
from tests.infra.support import samples
from tests.infra.support.samples import DATA, DEFAULT, GROUP, PRIVATE, STACK, changed, without
from tests.infra.support.stacks import posture_of, rendered
from tests.infra.support.variants import OPTIONS

ALLOWLISTED = dataclasses.replace(
    PRIVATE, profile="allowlisted", addresses=frozenset({"203.0.113.0/24"})
)
UNPROTECTED = dataclasses.replace(PRIVATE, production=False)
NODES = "properties.properties."
SUBNET = "subnets.0."
DENY_IN, DENY_OUT = "securityRules.1.", "securityRules.2."

BROKEN_INPUTS = [
    # rule, resource, input, value (None leaves it out)
    ("no-public-endpoint", "workspace", "publicNetworkAccess", "Enabled"),
    ("no-public-endpoint", "workspace", "publicNetworkAccess", None),
    ("no-public-endpoint", "registry", "publicNetworkAccess", "Enabled"),
    ("no-public-endpoint", "vault", "properties.publicNetworkAccess", "enabled"),
    ("no-public-endpoint", "vault", "properties.networkAcls", None),
    ("no-public-endpoint", "storage-mldata", "publicNetworkAccess", "Enabled"),
    ("no-public-endpoint", "storage-mldata", "networkRuleSet.defaultAction", "Allow"),
    (
        "no-public-endpoint",
        "storage-mldata",
        "networkRuleSet.ipRules",
        [{"iPAddressOrRange": "203.0.113.7"}],
    ),
    ("no-public-endpoint", "data-prepared", "publicAccess", "Blob"),
    ("no-public-address", "nat", "publicIpAddresses", []),
    ("closed-subnets", "network", SUBNET + "networkSecurityGroup", None),
    ("closed-subnets", "network", SUBNET + "defaultOutboundAccess", None),
    ("closed-network-rules", "nsg", "securityRules.0.sourceAddressPrefix", "Internet"),
    ("closed-network-rules", "nsg", "securityRules.0.sourceAddressPrefixes", ["0.0.0.0/0"]),
    ("closed-network-rules", "nsg", DENY_IN + "access", "Allow"),
    ("closed-network-rules", "nsg", DENY_OUT + "destinationAddressPrefix", "Storage"),
    ("closed-network-rules", "nsg", DENY_OUT + "destinationPortRange", "443"),
    ("nodes-without-public-address", "gpu", NODES + "enableNodePublicIp", True),
    ("nodes-without-public-address", "gpu", NODES + "enableNodePublicIp", None),
    ("nodes-without-public-address", "gpu", NODES + "remoteLoginPortPublicAccess", "NotSpecified"),
    ("nodes-without-public-address", "gpu", NODES + "subnet", None),
    ("no-keys", "storage-mldata", "allowSharedKeyAccess", True),
    ("no-keys", "storage-mldefault", "allowSharedKeyAccess", None),
    ("no-keys", "storage-mldata", "allowBlobPublicAccess", True),
    ("no-keys", "registry", "adminUserEnabled", True),
    ("no-keys", "registry", "anonymousPullEnabled", True),
    ("no-keys", "vault", "properties.enableRbacAuthorization", False),
    ("no-keys", "workspace", "systemDatastoresAuthMode", "AccessKey"),
    ("no-keys", "gpu", "properties.disableLocalAuth", False),
    ("no-keys", "prepared", "properties.credentials.credentialsType", "AccountKey"),
    ("no-keys", "logs", "features.disableLocalAuth", False),
    ("no-keys", "insights", "disableLocalAuth", False),
    ("tls-1-2", "storage-mldata", "minimumTlsVersion", "TLS1_1"),
    ("tls-1-2", "storage-mldata", "enableHttpsTrafficOnly", False),
    ("principal-types", "training-data-read", "principalType", None),
    ("high-business-impact", "workspace", "hbiWorkspace", False),
    ("high-business-impact", "workspace", "hbiWorkspace", None),
    ("high-business-impact", "workspace", "v1LegacyMode", True),
    ("clusters-rest-at-zero", "gpu", NODES + "scaleSettings.minNodeCount", 1.0),
    ("clusters-rest-at-zero", "gpu", NODES + "scaleSettings.nodeIdleTimeBeforeScaleDown", "120"),
    ("clusters-rest-at-zero", "gpu", NODES + "scaleSettings.nodeIdleTimeBeforeScaleDown", "P1D"),
    ("clusters-rest-at-zero", "gpu", NODES + "scaleSettings.nodeIdleTimeBeforeScaleDown", None),
    ("encrypted-twice", "storage-mldata", "encryption.requireInfrastructureEncryption", False),
    ("purge-protection", "vault", "properties.enablePurgeProtection", None),
    ("purge-protection", "vault", "properties.enablePurgeProtection", False),
    ("purge-protection", "vault", "properties.enableSoftDelete", False),
    ("required-tags", "gpu", "tags", None),
    ("required-tags", "network", "tags", {"owner": "vision"}),
    ("required-tags", "network", "tags", {"owner": "vision", "cost-center": ""}),
    ("budget-present", "budget", "notifications.coming", None),
    ("budget-present", "budget", "notifications.spent.enabled", False),
    ("budget-present", "budget", "notifications.spent.contactEmails", []),
]


def found(stack, posture=PRIVATE):
    return [(one.rule, one.resource and one.resource.name) for one in pack.check(stack, posture)]


def added(*resources):
    return [*STACK, *resources]


def lock(scope, token="authorization:ManagementLockByScope"):
    return samples.azure(token, "lock", "Microsoft.Authorization/locks/lock", {"scope": scope})


def test_a_stack_that_keeps_every_rule_has_no_violation():
    assert found(STACK) == []


@pytest.mark.parametrize(("rule", "name", "path", "setting"), BROKEN_INPUTS)
def test_an_input_that_breaks_a_rule_is_found_by_that_rule_alone(rule, name, path, setting):
    wrong = name if rule != "no-public-address" else "nat-address"
    assert set(found(changed(name, path, setting))) == {(rule, wrong)}


def test_every_rule_is_shown_to_fail():
    shown = {rule for rule, *_ in BROKEN_INPUTS} | {
        "no-owner",
        "only-publishers-write",
        "protected",
        "diagnostics",
        "no-group-lock",
    }
    assert shown == {rule.name for rule in pack.ALL}


def test_names_of_rules_are_unique_and_usable_by_pulumi():
    names = [rule.name for rule in pack.ALL]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in names)


def test_a_violation_names_the_resource_the_input_and_the_remedy():
    [one] = pack.check(changed("workspace", "hbiWorkspace", setting=False), PRIVATE)
    assert one.message == (
        "workspace (machinelearningservices:Workspace): hbiWorkspace is false and must be true. "
        "Set it when the workspace is created: Azure cannot change hbiWorkspace later."
    )


def test_a_versioned_type_is_held_to_the_same_rules():
    stack = [
        dataclasses.replace(one, type=one.type.replace(":storage:", ":storage/v20240101:"))
        for one in changed("storage-mldata", "minimumTlsVersion", "TLS1_0")
    ]
    assert found(stack) == [("tls-1-2", "storage-mldata")]


def test_the_allowlisted_profile_opens_workspace_and_listed_addresses():
    stack = changed("workspace", "publicNetworkAccess", "Enabled")
    for account in ("storage-mldata", "storage-mldefault"):
        stack = changed(account, "publicNetworkAccess", "Enabled", stack)
        listed = [{"iPAddressOrRange": "203.0.113.0/24"}]
        stack = changed(account, "networkRuleSet.ipRules", listed, stack)
    assert found(stack, ALLOWLISTED) == []

    other = [{"iPAddressOrRange": "198.51.100.1"}]
    broken = changed("storage-mldata", "networkRuleSet.ipRules", other, stack)
    assert found(broken, ALLOWLISTED) == [("no-public-endpoint", "storage-mldata")]
    for name, path in [
        ("registry", "publicNetworkAccess"),
        ("vault", "properties.publicNetworkAccess"),
    ]:
        broken = changed(name, path, "Enabled", stack)
        assert found(broken, ALLOWLISTED) == [("no-public-endpoint", name)]
    broken = changed("storage-mldata", "networkRuleSet.defaultAction", "Allow", stack)
    assert found(broken, ALLOWLISTED) == [("no-public-endpoint", "storage-mldata")]


@pytest.mark.parametrize("role", ADMINISTRATORS)
def test_nobody_is_given_a_role_that_gives_roles(role):
    scope = f"{GROUP}/providers/Microsoft.KeyVault/vaults/kv"
    assert found(added(samples.assignment("bad", role, scope, "training"))) == [("no-owner", "bad")]


def test_a_role_that_the_catalogue_does_not_list_is_refused():
    unknown = "00000000-1111-2222-3333-444444444444"
    scope = f"{GROUP}/providers/Microsoft.KeyVault/vaults/kv"
    bad = samples.assignment("bad", unknown, scope, "training")
    assert found(added(bad)) == [("no-owner", "bad")]


@pytest.mark.parametrize(
    "scope",
    [
        DATA,
        DATA.upper(),
        f"{DATA}/blobServices/default/containers/raw",
        GROUP,
        "/subscriptions/s",
        "/subscriptions/s/",
        "/providers/Microsoft.Management/managementGroups/all",
        "/",
    ],
)
@pytest.mark.parametrize("role", sorted(roles.WRITES_BLOBS - {roles.OWNER}))
def test_the_training_identity_may_write_training_data_through_no_scope(role, scope):
    bad = samples.assignment("bad", role, scope, "training")
    assert ("only-publishers-write", "bad") in found(added(bad))


def test_an_account_whose_name_begins_alike_is_another_account():
    other = samples.assignment("fine", roles.BLOB_DATA_CONTRIBUTOR, f"{DATA}2", "training")
    assert found(added(other)) == []


def test_the_workspaces_own_account_may_be_written():
    fine = samples.assignment("fine", roles.CONTRIBUTOR, DEFAULT, "training")
    assert found(added(fine)) == []


def test_a_publisher_may_write_data_and_nothing_more():
    bad = samples.assignment("bad", roles.CONTRIBUTOR, DATA)
    assert found(added(bad)) == [("only-publishers-write", "bad")]
    nobody = dataclasses.replace(PRIVATE, publishers=frozenset())
    assert found(STACK, nobody) == [("only-publishers-write", "publishers-data-write")]


def test_a_brought_account_holds_training_data_if_a_datastore_leads_there():
    stack = changed("prepared", "properties.accountName", "brought")
    scope = "/subscriptions/s/resourceGroups/theirs/providers/Microsoft.Storage/storageAccounts"
    bad = samples.assignment("bad", roles.BLOB_DATA_CONTRIBUTOR, f"{scope}/brought", "training")
    assert found([*stack, bad]) == [("only-publishers-write", "bad")]


@pytest.mark.parametrize("name", ["storage-mldata", "vault", "registry", "workspace"])
def test_production_protects_what_cannot_be_made_again(name):
    stack = [dataclasses.replace(one, options={}) if one.name == name else one for one in STACK]
    assert found(stack) == [("protected", name)]
    assert found(stack, UNPROTECTED) == []


def test_elsewhere_a_vault_may_be_purged_but_purging_is_never_switched_off():
    path = "properties.enablePurgeProtection"
    assert found(changed("vault", path, None), UNPROTECTED) == []
    broken = changed("vault", path, setting=False)
    assert found(broken, UNPROTECTED) == [("purge-protection", "vault")]


@pytest.mark.parametrize("service", ["workspace", "vault", "registry", "default", "data"])
def test_a_service_without_diagnostics_is_named(service):
    names = {"default": "storage-mldefault", "data": "storage-mldata"}
    wanted = [("diagnostics", names.get(service, service))]
    setting = f"diagnostics-{service}"
    assert found(without(setting)) == wanted
    assert found(changed(setting, "workspaceId", None)) == wanted
    assert found(changed(setting, "logs.0.enabled", setting=False)) == wanted


def test_diagnostics_of_an_account_are_not_those_of_its_blobs():
    stack = changed("diagnostics-data", "resourceUri", DATA)
    assert found(stack) == [("diagnostics", "storage-mldata")]


def test_a_stack_without_a_budget_is_told_so_without_a_resource():
    [one] = pack.check(without("budget"), PRIVATE)
    assert (one.rule, one.resource) == ("budget-present", None)
    assert one.message.startswith("the stack: has no budget")


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
    assert found(added(lock(scope))) == [("no-group-lock", "lock")]


def test_a_lock_on_one_resource_is_allowed():
    assert found(added(lock(DATA))) == []


def test_a_lock_that_can_only_hold_a_group_is_refused_whatever_it_says():
    token = "authorization:ManagementLockAtResourceGroupLevel"
    assert found(added(lock(None, token))) == [("no-group-lock", "lock")]


def test_resources_of_other_providers_are_nobodys_business():
    assert found(added(Resource("random:index:RandomString", "r", {}, {}, "r"))) == []


def test_rules_about_one_resource_are_checked_before_it_is_created():
    assert {rule.name for rule in pack.ALL if isinstance(rule, StackRule)} == {
        "no-public-address",
        "only-publishers-write",
        "budget-present",
        "diagnostics",
    }


@given(st.integers(0, 3), st.integers(0, 40), st.integers(0, 90), st.integers(1, 90))
def test_idle_times_are_read_as_iso_8601(days, hours, minutes, seconds):
    text = f"P{days}DT{hours}H{minutes}M{seconds}S"
    assert idle_minutes(text) == pytest.approx(days * 1440 + hours * 60 + minutes + seconds / 60)


@given(st.text(max_size=8))
def test_what_is_no_duration_is_not_taken_for_one(text):
    minutes = idle_minutes(text)
    assert minutes is None or text.startswith("P")


OPEN = OPTIONS["everything on"]
STACKS = [
    ("dev", {}),
    ("prod", {}),
    ("dev", OPEN),
    ("dev", OPTIONS["everything theirs"]),
    ("dev", OPTIONS["other clusters"]),
]


@pytest.mark.parametrize(("stack", "overrides"), STACKS)
def test_the_projects_own_stacks_keep_every_rule(stack, overrides):
    found = pack.check(rendered(stack, **overrides), posture_of(stack, **overrides))
    assert [one.message for one in found] == []


def test_the_allowlisted_stack_would_break_the_private_profile():
    private = dataclasses.replace(posture_of("dev", **OPEN), profile="private")
    found = pack.check(rendered("dev", **OPEN), private)
    assert {(one.rule, one.resource.name) for one in found} == {
        ("no-public-endpoint", name) for name in ("workspace", "storage-default", "storage-data")
    }


def test_a_writer_too_many_is_found_in_an_account_that_the_stack_takes():
    theirs = OPTIONS["everything theirs"]
    reads = "training-prepared-storage-blob-data-reader"
    stack = [
        dataclasses.replace(
            one,
            inputs=one.inputs | {"roleDefinitionId": f"/x/{roles.BLOB_DATA_CONTRIBUTOR}"},
        )
        if one.name == reads
        else one
        for one in rendered("dev", **theirs)
    ]
    found = pack.check(stack, posture_of("dev", **theirs))
    assert [(one.rule, one.resource.name) for one in found] == [("only-publishers-write", reads)]


def test_the_development_stack_would_break_productions_rules():
    posture = dataclasses.replace(posture_of("dev"), production=True)
    assert {one.rule for one in pack.check(rendered("dev"), posture)} == {
        "protected",
        "purge-protection",
    }


def test_every_resource_rule_is_about_something_that_is_declared():
    posture = posture_of("prod")
    bare = [dataclasses.replace(one, inputs={}, options={}) for one in rendered("prod")]
    reached = {one.rule for one in pack.check(bare, posture)}
    wanted = {rule.name for rule in pack.ALL if isinstance(rule, ResourceRule)}
    # Neither says anything of a network without subnets, nor of a stack without locks.
    assert wanted - reached == {"closed-subnets", "no-group-lock"}


def test_every_resource_that_azure_lets_us_tag_is_held_to_the_tags():
    with_tags = {one.kind for one in rendered("prod") if "tags" in one.inputs}
    assert with_tags <= TAGGED


def test_the_data_account_of_the_stack_is_found_to_hold_training_data():
    names = training_accounts(rendered("dev"))
    [account] = names
    assert "data" in account


def test_the_posture_follows_from_the_settings():
    posture = posture_of("dev", **OPEN)
    assert posture.profile == "allowlisted"
    assert posture.addresses == frozenset(OPEN["allowed_addresses"])
    assert posture.publishers == frozenset({OPEN["people.publishers"]})
    assert not posture.production
    assert posture_of("prod").production


def test_the_stack_called_prod_is_production_whatever_it_says():
    assert posture_of("prod", protect=False).production
