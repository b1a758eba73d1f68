"""Facts about Azure hold together: sizes, roles, zones and network rules."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import dns_zones, network_rules, roles, vm_sizes
from infra.catalog.network_rules import Rule

regions = st.from_regex(r"[a-z]{4,12}[0-9]?", fullmatch=True)
tags = st.sampled_from(["AzureKeyVault", "Keyvault"])
REFERENCE = ["NC", "NDs", "NCsv2", "NCsv3", "NDv2", "ND A100 v4"]
"""The series of the reference architecture's table, in its order."""


def groups(region="westeurope", *, hbi=True, public_ip=False, vault_tag="AzureKeyVault"):
    return {
        "training": network_rules.training(
            region, hbi=hbi, public_ip=public_ip, vault_tag=vault_tag
        ),
        "build": network_rules.build(region, hbi=hbi, vault_tag=vault_tag),
        "endpoints": network_rules.endpoints(),
        "jump": network_rules.jump(),
    }


def egress(found: tuple[Rule, ...]) -> dict[tuple[str, str], tuple[str, ...]]:
    return {
        (rule.destination, rule.protocol): rule.ports
        for rule in found
        if (rule.direction, rule.access) == ("Outbound", "Allow")
    }


def test_the_catalogue_has_the_references_series_in_their_order():
    series = list(dict.fromkeys(size.series for size in vm_sizes.GPU))
    assert series[: len(REFERENCE)] == REFERENCE
    for name in REFERENCE:
        assert any(size.infiniband for size in vm_sizes.GPU if size.series == name), name


def test_only_what_azure_still_deploys_is_deployable():
    gone = {size.series for size in vm_sizes.GPU if size.status == "retired"}
    assert gone == {"NC", "NDs", "NCsv2", "NCsv3"}
    names = {size.name for size in vm_sizes.deployable(gpu=True)}
    assert {"Standard_ND40rs_v2", "Standard_ND96asr_v4"} <= names
    assert not names & {size.name for size in vm_sizes.deployable(gpu=False)}


@pytest.mark.parametrize(
    "size", [s for s in vm_sizes.BY_NAME.values() if s.status != "deployable"], ids=lambda s: s.name
)
def test_a_size_that_is_gone_names_one_of_its_kind_that_is_not(size):
    replacement = vm_sizes.find(size.replacement)
    assert replacement.status == "deployable"
    assert bool(replacement.gpus) == bool(size.gpus)
    assert size.since


@pytest.mark.parametrize("size", vm_sizes.BY_NAME.values(), ids=lambda s: s.name)
def test_a_sizes_name_agrees_with_its_entry(size):
    cores = int(re.match(r"Standard_[A-Z]+(\d+)", size.name)[1])
    named = {"Standard_DS3_v2": 4}.get(size.name, cores)
    assert size.vcpus == named
    assert (size.gpu is not None) == (size.gpus > 0)
    assert vm_sizes.find(size.name.upper()) is size
    shape = size.name.removeprefix("Standard_").partition("_")[0]
    assert size.infiniband == bool(size.gpus and re.search(r"\d+[a-z]*r", shape))


def test_sizes_are_named_once():
    assert len(vm_sizes.BY_NAME) == len(vm_sizes.GPU) + len(vm_sizes.CPU)
    assert vm_sizes.find("Standard_X1") is None


def test_roles_are_distinct_guids_and_none_owns():
    constants = {name: value for name, value in vars(roles).items() if name.isupper()}
    guids = [value for value in constants.values() if isinstance(value, str)]
    assert len(set(guids)) == len(guids)
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", guid) for guid in guids)
    assert roles.OWNER not in roles.NAMES
    assert set(guids) == {*roles.NAMES, roles.OWNER, roles.BLOB_DATA_OWNER}


def test_a_role_that_the_platform_does_not_assign_has_no_definition():
    assert roles.definition_id("SUB", roles.ACR_PULL) == (
        "/subscriptions/SUB/providers/Microsoft.Authorization/roleDefinitions/" + roles.ACR_PULL
    )
    with pytest.raises(KeyError):
        roles.definition_id("SUB", roles.OWNER)


@pytest.mark.parametrize("monitor", [False, True])
@pytest.mark.parametrize("certificate", [False, True])
def test_every_endpoint_finds_its_zones_and_no_zone_is_there_twice(monitor, certificate):
    needed = dns_zones.needed(monitor=monitor, certificate=certificate)
    assert len(set(needed)) == len(needed)
    for kind, endpoint in dns_zones.ENDPOINTS.items():
        present = set(endpoint.zones) <= set(needed)
        assert present == (monitor or kind != "monitor")
    assert (dns_zones.WORKSPACE_CERTIFICATE in needed) == certificate
    assert len(dns_zones.ENDPOINTS["workspace"].zones) == 2


@given(regions, st.booleans(), st.booleans(), tags)
def test_no_two_rules_share_a_direction_and_priority_or_a_name(region, hbi, public_ip, vault_tag):
    for found in groups(region, hbi=hbi, public_ip=public_ip, vault_tag=vault_tag).values():
        places = [(rule.direction, rule.priority) for rule in found]
        assert len(set(places)) == len(places)
        assert len({rule.name for rule in found}) == len(found)
        for rule in found:
            assert 100 <= rule.priority <= 4096
            assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,78}[a-z0-9]", rule.name)
            assert 0 < len(rule.why) <= 140


@given(regions, st.booleans(), st.booleans(), tags)
def test_what_no_rule_lets_through_is_denied(region, hbi, public_ip, vault_tag):
    for found in groups(region, hbi=hbi, public_ip=public_ip, vault_tag=vault_tag).values():
        for direction in ("Inbound", "Outbound"):
            last = max(
                (rule for rule in found if rule.direction == direction),
                key=lambda rule: rule.priority,
            )
            assert (last.access, last.protocol, last.ports) == ("Deny", "*", ("*",))
            assert (last.source, last.destination) == ("*", "*")


@given(regions, tags)
def test_training_reaches_what_the_service_needs_and_nothing_else(region, vault_tag):
    found = egress(network_rules.training(region, hbi=True, public_ip=False, vault_tag=vault_tag))
    assert found == {
        ("VirtualNetwork", "*"): ("*",),
        ("AzureActiveDirectory", "Tcp"): ("80", "443"),
        ("AzureMachineLearning", "Tcp"): ("443", "8787", "18881"),
        ("AzureMachineLearning", "Udp"): ("5831",),
        (f"BatchNodeManagement.{region}", "*"): ("443",),
        ("AzureResourceManager", "Tcp"): ("443",),
        (f"Storage.{region}", "Tcp"): ("443",),
        ("MicrosoftContainerRegistry", "Tcp"): ("443",),
        ("AzureFrontDoor.FirstParty", "Tcp"): ("443",),
        ("AzureMonitor", "Tcp"): ("443",),
        (f"{vault_tag}.{region}", "Tcp"): ("443",),
    }


def test_only_a_high_business_impact_workspace_needs_the_regions_key_vault():
    plain = egress(
        network_rules.training("westeurope", hbi=False, public_ip=False, vault_tag="Keyvault")
    )
    assert not any(tag.startswith("Keyvault") for tag, _ in plain)


def test_only_the_builder_and_the_jump_subnet_reach_the_internet():
    reach = {
        role: {tag for tag, _ in egress(found)} & {"Internet", "*"}
        for role, found in groups().items()
    }
    assert reach == {
        "training": set(),
        "build": {"Internet"},
        "endpoints": set(),
        "jump": {"Internet"},
    }


@pytest.mark.parametrize("public_ip", [False, True])
def test_only_the_service_comes_in_and_only_to_public_nodes(public_ip):
    sources = {
        (rule.source, rule.ports)
        for found in groups(public_ip=public_ip).values()
        for rule in found
        if (rule.direction, rule.access) == ("Inbound", "Allow") and rule.source != "VirtualNetwork"
    }
    assert sources == ({("AzureMachineLearning", ("44224",))} if public_ip else set())


def test_ranks_find_each_other_on_any_port():
    inside = [
        rule.direction
        for rule in groups()["training"]
        if rule.source == rule.destination == "VirtualNetwork"
        and (rule.access, rule.protocol, rule.ports) == ("Allow", "*", ("*",))
    ]
    assert sorted(inside) == ["Inbound", "Outbound"]
