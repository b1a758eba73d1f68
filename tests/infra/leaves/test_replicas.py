"""Copies of the registry in the regions of other stacks."""

from infra import prerequisites
from infra.policies import pack
from infra.render import costs
from infra.resources import REGISTRY, of_kind, requirements
from infra.validation import load
from tests.infra.support import variants
from tests.infra.support.configurations import NETWORK, configured, problem
from tests.infra.support.stacks import key, rendered, settings_of
from tests.infra.support.variants import OPTIONS

COPY = "containerregistry:Replication"
TWO = OPTIONS["registry in two regions"]
FAR = OPTIONS["registry of another region"]


def broken(stack, option=TWO):
    return {one.rule for one in pack.check(stack, settings_of("dev", **option))}


def test_each_region_has_a_copy_as_redundant_and_reachable_as_the_registry():
    stack = rendered("dev", **TWO)
    copies = of_kind(stack, COPY)
    assert [one.inputs["location"] for one in copies] == ["northeurope", "swedencentral"]
    [registry] = of_kind(stack, REGISTRY)
    for one in copies:
        assert one.inputs["replicationName"] == one.inputs["location"]
        assert one.inputs["registryName"] == registry.inputs["registryName"]
        assert one.inputs["zoneRedundancy"] == registry.inputs["zoneRedundancy"] == "Enabled"
        assert one.inputs["regionEndpointEnabled"] is True
    needed = requirements(stack)
    first, second = (key(COPY, one.name) for one in copies)
    assert first in needed[second]
    # Its address is added to an endpoint that exists.
    assert key("network:PrivateEndpoint", "registry") in needed[first]
    assert of_kind(rendered("dev"), COPY) == []


def test_regions_that_make_no_sense_are_refused():
    assert "the stack's own region" in problem(("registry.replicas", ["westeurope"]))
    assert "contains eastus twice" in problem(("registry.replicas", ["eastus", "eastus"]))
    five = ["eastus", "westus", "uksouth", "norwayeast", "swedencentral"]
    assert "has room for 4" in problem(("registry.replicas", five))
    theirs = ("registry.existing", variants.REGISTRY)
    assert "the stack that declares" in problem(theirs, ("registry.replicas", ["eastus"]))
    assert "without registry.existing" in problem(("registry.remote_reason", "None."))


def test_the_subnet_of_another_network_needs_an_address_for_each_copy():
    subnets = {
        f"{role}_subnet": f"{NETWORK}/subnets/{role}" for role in ("training", "build", "endpoints")
    }

    def asked(*changes):
        theirs = ("network.existing", {"virtual_network": NETWORK, **subnets})
        needs = prerequisites.of(load(configured(theirs, *changes))).existing
        return next(one.addresses for one in needs if one.setting.endswith("endpoints_subnet"))

    assert asked(("registry.replicas", ["northeurope", "eastus"])) == asked() + 2


def test_copies_cost_as_much_as_the_registry():
    price_list = costs.read()
    rows = {row.item: row for row in costs.rows(rendered("dev", **TWO), price_list)}
    assert rows["Copy of the registry in another region"].monthly == 100.0
    assert "traffic between the regions" in rows["Copy of the registry in another region"].plus


def test_copies_that_the_settings_do_not_name_are_refused():
    assert broken(rendered("dev", **TWO), {}) >= {"complete", "no-copies-outside"}


def test_a_stack_of_another_region_keeps_the_rules():
    assert broken(rendered("dev", **FAR), FAR) == set()
    assert broken(rendered("dev", **TWO)) == set()
