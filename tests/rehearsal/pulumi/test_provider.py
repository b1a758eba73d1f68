"""The provider's own tables: properties that it refuses, sends and reads back."""

import dataclasses
import json

import pytest

from rehearsal.pulumi.provider import bodies, types
from rehearsal.pulumi.provider.inputs import InputChange, input_changes, input_problems
from rehearsal.pulumi.provider.resource_type import identifier
from rehearsal.pulumi.provider.values import UNKNOWN, holds_unknown, plain, struct
from tests.infra.support.stacks import rendered
from tests.infra.support.variants import OPTIONS

NETWORK = types.TYPES["network:VirtualNetwork"]
ACCOUNT = types.TYPES["storage:StorageAccount"]
COMPUTE = types.TYPES["machinelearningservices:Compute"]
ROLE = types.TYPES["authorization:RoleAssignment"]
GROUP = types.TYPES["resources:ResourceGroup"]
GUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture(scope="module")
def declared():
    """The resources of a stack with everything switched on."""
    switched = OPTIONS["everything on"] | {"monitoring.application_insights": True}
    return [one for one in rendered("dev", **switched) if one.type.startswith("azure-native:")]


def account(**changed):
    inputs = {
        "resourceGroupName": "rg",
        "accountName": "store",
        "location": "westeurope",
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "enableHttpsTrafficOnly": True,
        "networkRuleSet": {"defaultAction": "Deny"},
        "tags": {"cost-center": "research"},
    }
    return {**inputs, **changed}


def test_all_that_the_stacks_declare_is_known_and_passes(declared):
    for one in declared:
        type_ = types.find(one.type)
        assert type_ is not None, one.type
        assert input_problems(type_, one.inputs) == [], one.name


def test_ids_are_those_that_the_platform_expects(declared):
    for one in declared:
        subscription = one.id.split("/")[2]
        assert identifier(types.find(one.type), one.inputs, subscription) == one.id


def test_what_is_sent_can_be_read_back_as_the_same_inputs(declared):
    """As if Resource Manager stored each body as it is."""
    for one in declared:
        type_ = types.find(one.type)
        read = bodies.outputs(type_, bodies.body(type_, one.inputs))
        assert bodies.drifted(type_, one.inputs, read, read) == one.inputs
        if type_.flat_outputs:
            assert one.inputs["properties"].items() <= read.items()
            continue
        for name in type_.inputs & one.inputs.keys() - {"identity", *type_.names}:
            assert read[name] == one.inputs[name], (one.name, name)


def test_a_version_in_the_token_is_that_of_the_requests_and_makes_no_other_type():
    older = types.find("azure-native:network/v20230401preview:VirtualNetwork")
    assert older.api_version == "2023-04-01-preview"
    assert dataclasses.replace(older, version="") == NETWORK
    assert types.find("azure-native:network:Unheard") is None
    assert types.find("aws:network:VirtualNetwork") is None


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        ({"accountName": "Not_Valid"}, "accountName", "does not match"),
        ({"kind": "StorageV3"}, "kind", "'StorageV3' is not one of"),
        ({"sku": {}}, "sku.name", "is required"),
        (
            {"networkRuleSet": {"defaultAction": "Refuse"}},
            "networkRuleSet.defaultAction",
            "is not one",
        ),
        ({"httpsOnly": True}, "httpsOnly", "unknown input"),
    ],
)
def test_check_refuses_what_azure_would(changed, path, words):
    (problem,) = input_problems(ACCOUNT, account(**changed))
    assert problem.path == path
    assert words in problem.reason


def test_check_looks_into_every_element_of_a_list():
    inputs = {
        "resourceGroupName": "rg",
        "virtualNetworkName": "vnet",
        "location": "westeurope",
        "addressSpace": {"addressPrefixes": ["10.0.0.0/24"]},
        "subnets": [{"name": "a"}, {"name": "b", "privateEndpointNetworkPolicies": "Off"}],
    }
    (problem,) = input_problems(NETWORK, inputs)
    assert problem.path == "subnets.privateEndpointNetworkPolicies"


@pytest.mark.parametrize(
    ("space", "prefixes", "words"),
    [
        ("10.0.0.0/24", ["10.0.1.0/26"], "'10.0.1.0/26' is not in 10.0.0.0/24"),
        ("10.0.0.0/24", ["10.0.0.0/26", "10.0.0.32/27"], "'10.0.0.32/27' overlaps 10.0.0.0/26"),
        ("10.0.0.0/24", ["10.0.0.1/26"], "'10.0.0.1/26' is not an address range"),
        ("10.0.0.0/33", [], "'10.0.0.0/33' is not an address range"),
    ],
)
def test_check_refuses_addresses_that_a_network_cannot_have(space, prefixes, words):
    inputs = {
        "resourceGroupName": "rg",
        "virtualNetworkName": "vnet",
        "location": "westeurope",
        "addressSpace": {"addressPrefixes": [space, "192.168.0.0/24"]},
        "subnets": [{"name": one, "addressPrefix": one} for one in ("192.168.0.0/25", *prefixes)],
    }
    (problem,) = input_problems(NETWORK, inputs)
    assert words in problem.reason
    for unknown in (UNKNOWN, [UNKNOWN, "172.16.0.0/16"]):
        later = {"addressSpace": {"addressPrefixes": unknown}}
        subnets = [{"name": "a", "addressPrefix": "10.0.0.0/26"}]
        assert input_problems(NETWORK, {**inputs, **later, "subnets": subnets}) == []


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("52.174.12.7", None),
        ("52.174.12.4/30", None),
        ("203.0.113.7", None),
        ("10.1.2.3", "'10.1.2.3' is not a public address"),
        ("52.174.12.6/31", "'52.174.12.6/31' is too small a range"),
        ("office", "'office' is not an address"),
    ],
)
def test_check_refuses_addresses_that_an_account_cannot_let_in(address, words):
    rules = {"defaultAction": "Deny", "ipRules": [{"iPAddressOrRange": address}]}
    found = input_problems(ACCOUNT, account(networkRuleSet=rules))
    assert [words in one.reason for one in found] == ([] if words is None else [True])


@pytest.mark.parametrize("name", ["gpu-8", "a", "8gpu", "a" * 25, "with_underscore"])
def test_names_that_azure_machine_learning_refuses(name):
    inputs = {
        "resourceGroupName": "rg",
        "workspaceName": "ws",
        "computeName": name,
        "location": "westeurope",
        "properties": {"computeType": "AmlCompute"},
    }
    (problem,) = input_problems(COMPUTE, inputs)
    assert problem.path == "computeName"


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        (None, ("properties", "is required")),
        ({}, ("properties.computeType", "is required")),
        ({"computeType": "Fast"}, ("properties.computeType", "'Fast' is not one of AKS, Aml")),
        (
            {"computeType": "AmlCompute", "properties": {"nodes": 2}},
            ("properties.properties.nodes", "unknown input"),
        ),
    ],
)
def test_the_kind_of_a_compute_decides_what_it_may_contain(properties, problem):
    inputs = {
        "resourceGroupName": "rg",
        "workspaceName": "ws",
        "computeName": "cpu",
        "location": "westeurope",
        **({} if properties is None else {"properties": properties}),
    }
    (found,) = input_problems(COMPUTE, inputs)
    assert found.path == problem[0]
    assert found.reason.startswith(problem[1])


def test_what_is_not_known_yet_is_not_judged():
    assert input_problems(ACCOUNT, account(accountName=UNKNOWN, kind=UNKNOWN, sku=UNKNOWN)) == []
    assert holds_unknown({"a": [{"b": UNKNOWN}]})
    assert not holds_unknown({"a": [{"b": "known"}]})


def test_the_body_has_azures_own_shape():
    found = bodies.body(ACCOUNT, account(identity={"userAssignedIdentities": ["/id"]}))
    assert found == {
        "location": "westeurope",
        "tags": {"cost-center": "research"},
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "identity": {"userAssignedIdentities": {"/id": {}}},
        "properties": {
            "supportsHttpsTrafficOnly": True,
            "networkAcls": {"defaultAction": "Deny"},
        },
    }


def test_names_are_azures_in_bodies_and_azure_natives_in_outputs():
    key = {"keyName": "cmk", "keyVaultUri": "https://vault.vault.azure.net"}
    given = account(
        networkRuleSet={"ipRules": [{"iPAddressOrRange": "52.174.12.7"}, {"action": "Allow"}]},
        encryption={
            "encryptionIdentity": {"encryptionUserAssignedIdentity": "/id"},
            "keyVaultProperties": key,
        },
    )
    body = bodies.body(ACCOUNT, given)
    assert body["properties"]["networkAcls"] == {
        "ipRules": [{"value": "52.174.12.7"}, {"action": "Allow"}]
    }
    assert body["properties"]["encryption"] == {
        "identity": {"userAssignedIdentity": "/id"},
        "keyvaultproperties": {"keyname": "cmk", "keyvaulturi": "https://vault.vault.azure.net"},
    }
    read = bodies.outputs(ACCOUNT, body)
    assert read["networkRuleSet"] == given["networkRuleSet"]
    assert read["encryption"] == given["encryption"]


def test_a_part_of_a_part_has_properties_of_its_own_in_the_body_alone():
    machine, card = types.TYPES["compute:VirtualMachine"], types.TYPES["network:NetworkInterface"]
    given = {"networkProfile": {"networkInterfaces": [{"id": "/n", "primary": True}]}}
    body = bodies.body(machine, given)
    profile = body["properties"]["networkProfile"]
    assert profile == {"networkInterfaces": [{"id": "/n", "properties": {"primary": True}}]}
    assert bodies.outputs(machine, body)["networkProfile"] == given["networkProfile"]
    own = [{"name": "one", "subnet": {"id": "/s", "privateEndpointNetworkPolicies": "Disabled"}}]
    body = bodies.body(card, {"ipConfigurations": own})
    (configuration,) = body["properties"]["ipConfigurations"]
    subnet = {"id": "/s", "properties": {"privateEndpointNetworkPolicies": "Disabled"}}
    assert configuration == {"name": "one", "properties": {"subnet": subnet}}
    assert bodies.outputs(card, body)["ipConfigurations"] == own


def test_parts_of_a_network_have_properties_of_their_own():
    subnets = [{"name": "a", "addressPrefix": "10.0.0.0/25", "natGateway": {"id": "/nat"}}]
    inner = bodies.body(NETWORK, {"subnets": subnets})["properties"]["subnets"]
    assert inner == [
        {"name": "a", "properties": {"addressPrefix": "10.0.0.0/25", "natGateway": {"id": "/nat"}}}
    ]


def test_an_assignment_is_below_its_scope_a_group_in_its_subscription():
    role = {"scope": "/subscriptions/s/resourceGroups/rg", "roleAssignmentName": GUID}
    assert identifier(ROLE, role, "other") == (
        f"/subscriptions/s/resourceGroups/rg/providers/Microsoft.Authorization/roleAssignments/{GUID}"
    )
    assert (
        identifier(GROUP, {"resourceGroupName": "rg"}, "s") == "/subscriptions/s/resourceGroups/rg"
    )


def test_only_what_changed_in_azure_drifts_into_the_inputs():
    before = {**account(), "accessTier": "Hot", "primaryEndpoints": {"blob": "https://a/"}}
    now = {
        **before,
        "networkRuleSet": {"defaultAction": "Allow"},
        "primaryEndpoints": {"blob": "https://b/"},
        "tags": {"cost-center": "research", "by-hand": "yes"},
    }
    expected = account(
        networkRuleSet={"defaultAction": "Allow"},
        tags={"cost-center": "research", "by-hand": "yes"},
    )
    assert bodies.drifted(ACCOUNT, account(), before, now) == expected


def test_what_was_removed_in_azure_is_removed_from_the_inputs():
    before = account()
    now = {name: value for name, value in before.items() if name != "networkRuleSet"}
    assert "networkRuleSet" not in bodies.drifted(ACCOUNT, account(), before, now)


def test_one_more_identity_drifts_as_the_list_that_it_is():
    def seen(*ids):
        return {"identity": {"type": "UserAssigned", "userAssignedIdentities": {
            one: {"clientId": GUID} for one in ids}, "principalId": GUID}}  # fmt: skip

    given = {"identity": {"type": "UserAssigned", "userAssignedIdentities": ["/a"]}}
    found = bodies.drifted(COMPUTE, given, seen("/a"), seen("/a", "/b"))
    assert found["identity"] == {"type": "UserAssigned", "userAssignedIdentities": ["/a", "/b"]}


def test_changes_have_paths_and_say_what_takes_another_resource():
    after = account(
        accountName="other", tags={"cost-center": "sales"}, accessTier="Hot", isHnsEnabled=True
    )
    del after["networkRuleSet"]
    assert input_changes(ACCOUNT, account(), after) == [
        InputChange("accessTier", "add", replaces=False),
        InputChange("accountName", "update", replaces=True),
        InputChange("isHnsEnabled", "add", replaces=True),
        InputChange("networkRuleSet", "delete", replaces=False),
        InputChange('tags["cost-center"]', "update", replaces=False),
    ]
    assert input_changes(ACCOUNT, account(), account()) == []


def test_changes_inside_lists_name_the_element():
    before, after = {"subnets": [{"name": "a"}]}, {"subnets": [{"name": "b"}, {"name": "c"}]}
    assert [one.path for one in input_changes(NETWORK, before, after)] == [
        "subnets[0].name",
        "subnets[1]",
    ]


def test_the_protocol_keeps_values_and_makes_whole_numbers_integers():
    values = {"a": 1, "b": 1.5, "c": [True, None, {"d": "x"}], "e": {}}
    assert plain(struct(values)) == values
    assert json.dumps(plain(struct({"a": 1}))) == '{"a": 1}'
