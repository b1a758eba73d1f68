"""The managed network: resources that it declares and leaves out, and refusals of its settings and
rules."""

from itertools import pairwise

import pulumi
import pytest

from infra.components.immutable import ChangeError
from infra.extras.managed_network.security import APPROVED_ON, APPROVER
from infra.policies.pack import check
from infra.render import costs
from infra.resources import ASSIGNMENT, COMPUTE, WORKSPACE, of_kind, requirements
from infra.validation import load
from tests.infra.support.configurations import NETWORK, configured, problem, problems
from tests.infra.support.production import changed, without
from tests.infra.support.stacks import key, only, ran, rendered, settings_of
from tests.infra.support.variants import FIREWALL, MANAGED, OPTIONS

ON = tuple(MANAGED.items())
WITH_FIREWALL = tuple(FIREWALL.items())
RULE = "machinelearningservices:ManagedNetworkSettingsRule"
NODES = "properties.properties"
FOREIGN = f"{NETWORK}/subnets/nodes"


def faults(resources, option="managed network, with a firewall"):
    """The rules that a changed stack breaks."""
    return {one.rule for one in check(resources, settings_of("dev", **OPTIONS[option]))}


def test_nodes_have_no_subnet_no_gateway_and_no_builder():
    resources = rendered("dev", **MANAGED)
    workspace = only(resources, WORKSPACE).inputs
    assert workspace["managedNetwork"]["isolationMode"] == "AllowOnlyApprovedOutbound"
    assert workspace["managedNetwork"]["managedNetworkKind"] == "V1"
    assert "outboundRules" not in workspace["managedNetwork"]
    assert workspace["provisionNetworkNow"] is True
    assert workspace["publicNetworkAccess"] == "Disabled"
    assert "imageBuildCompute" not in workspace
    assert "serverlessComputeCustomSubnet" not in workspace["serverlessComputeSettings"]
    for cluster in of_kind(resources, COMPUTE):
        assert "subnet" not in cluster.inputs["properties"]["properties"]
        assert cluster.inputs["location"] == workspace["location"]
    gone = ("network:NatGateway", "network:PublicIPAddress", "network:ServiceEndpointPolicy")
    assert not of_kind(resources, *gone)
    network = only(resources, "network:VirtualNetwork")
    assert [one["name"] for one in network.inputs["subnets"]] == ["snet-endpoints"]


def test_people_reach_it_as_a_private_stack():
    managed, private = ran("dev", **MANAGED), ran("dev")
    kinds = ("network:PrivateEndpoint", "privatedns:PrivateZone")
    assert {one.name for one in of_kind(managed.resources, *kinds)} == {
        one.name for one in of_kind(private.resources, *kinds)
    }
    assert managed.platform["access"] == private.platform["access"]
    assert managed.platform["identities"]["build"] is None


def test_a_jump_machine_in_it_still_leaves_through_the_gateway():
    resources = rendered("dev", **MANAGED, **{"network.jump_subnet": True})
    assert of_kind(resources, "network:NatGateway")


def test_rules_are_made_one_after_the_other_between_workspace_and_clusters():
    resources = rendered("dev", **FIREWALL)
    before = requirements(resources)
    rules = sorted(of_kind(resources, RULE), key=lambda one: len(before[one.key]))
    assert [one.inputs["ruleName"] for one in rules] == [
        *("data-blob", "host-pypi-org", "host-any-nvcr-io")
    ]
    for earlier, later in pairwise(rules):
        assert earlier.key in before[later.key]
    for cluster in of_kind(resources, COMPUTE):
        assert {one.key for one in rules} <= before[cluster.key]
    workspace = only(resources, WORKSPACE).key
    assert workspace in before[rules[0].key]
    approved = {one.name for one in of_kind(resources, ASSIGNMENT) if one.name.endswith("approver")}
    assert len(approved) == 4
    assert {key(ASSIGNMENT, name) for name in approved} <= before[workspace]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ((("managed_network.accept_one_way", False),), "can never take a managed network back"),
        ((("clusters.build", {"size": "Standard_D4ads_v5", "max_nodes": 1, "duty": "build"}),),
         "clusters.build: has the duty build"),
        ((("managed_network.hosts", ["pypi.org"]),), "cannot be reached without a firewall"),
        ((("managed_network.firewall", "Premium"),), "is not one of none, Basic, Standard"),
        ((("allowed_addresses", ["20.103.0.7"]),), "the managed profile allows no access"),
        ((("serving", True),), "serving: cannot be combined with profile managed"),
        ((("network.existing", OPTIONS["their network"]["network.existing"]),),
         "network.existing: cannot be combined with profile managed"),
    ],
)  # fmt: skip
def test_settings_that_it_cannot_have_are_refused_with_a_cure(changes, says):
    assert any(says in one for one in problems(*ON, *changes))


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ([], "is empty"),
        (["theirs.blob.core.windows.net"], "is a storage account"),
        (["pypi.org", "pypi.org"], "names a host twice"),
        (["https://pypi.org"], "must be a host's name"),
        (["10.0.0.4"], "must be a host's name"),
    ],
)
def test_hosts_that_no_rule_can_allow_are_refused(hosts, says):
    assert says in problem(*WITH_FIREWALL, ("managed_network.hosts", hosts))


def test_its_settings_without_its_profile_are_refused():
    assert "managed_network: has no effect" in problem(("managed_network.accept_one_way", True))
    assert load(configured()).profile == "private"


def test_the_way_into_it_and_back_is_refused_for_a_workspace_that_exists():
    own, managed = (only(rendered("dev", **one), WORKSPACE) for one in ({}, MANAGED))
    for old, new in ((managed, own), (own, managed)):
        args = pulumi.ResourceHookArgs(
            urn="", id=old.id, name=old.name, type=old.type,
            old_inputs=dict(old.inputs), new_inputs=dict(new.inputs),
        )  # fmt: skip
        with pytest.raises(ChangeError, match=r"managedNetwork\.isolationMode cannot change"):
            ran("dev").hooks["refuse-changes-workspace"](args)


def test_rules_catch_what_opens_it():
    stack = list(rendered("dev", **FIREWALL))
    subnet = changed("cluster-gpu", f"{NODES}.subnet", {"id": FOREIGN}, stack)
    assert "nodes-in-their-subnet" in faults(subnet)
    other = changed("outbound-host-pypi-org", "properties.destination", "example.com", stack)
    assert faults(other) == {"approved-outbound"}
    assert "approved-outbound" in faults(without("outbound-data-blob", stack))
    [approver] = [one.name for one in stack if one.name.startswith("workspace-data-storage-azure")]
    assert "approved-outbound" in faults(without(approver, stack))


def test_the_owner_is_asked_for_the_roles_that_approve_its_endpoints():
    overrides = MANAGED | {"roles": "existing"}
    stack = ran("dev", **overrides)
    approved = {role["scope"] for role in stack.roles if role["role"] == APPROVER}
    assert len(approved) == len(APPROVED_ON)
    assert check(stack.resources, settings_of("dev", **overrides)) == []


def test_a_host_without_the_settings_consent_breaks_a_rule():
    stack = list(rendered("dev", **FIREWALL))
    assert {"approved-outbound", "high-business-impact"} <= faults(stack, "managed network")


def test_the_price_of_the_firewall_is_told_before_it_is_there():
    book = costs.read()

    def price(overrides):
        rows = {row.item: row for row in costs.rows(rendered("dev", **overrides), book)}
        return next(rows[item] for item in rows if item.startswith("Workspace"))

    assert price({}).monthly == 0
    assert price(MANAGED).monthly == pytest.approx(5 * 7.3)
    assert price(FIREWALL).monthly == pytest.approx(5 * 7.3 + 912.5)
    assert price({**FIREWALL, "managed_network.firewall": "Basic"}).monthly is None
