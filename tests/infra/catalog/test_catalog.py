"""Facts about Azure hold together: sizes, roles, zones and network rules."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.catalog import dns_zones, network_rules, roles, vm_sizes
from infra.catalog.network_rules import Rule, ServiceTraffic, Surroundings
from infra.extras.jump_machine.network_rules import jump
from infra.subnets import ENDPOINT_ADDRESSES
from tests import ROOT
from tests.infra.support.stacks import settings_of
from tests.infra.support.variants import OPTIONS

regions = st.from_regex(r"[a-z]{4,12}[0-9]?", fullmatch=True)
tags = st.sampled_from(["AzureKeyVault", "Keyvault"])
REFERENCE = ["NC", "NDs", "NCsv2", "NCsv3", "NDv2", "ND A100 v4"]
"""The series of the reference architecture's table, in its order."""


OWN, ENDPOINTS, PEERS, BASTION = "10.0.0.0/24", "10.0.1.0/27", "10.1.0.0/16", "10.1.4.0/26"
SERVERS = ("10.1.0.4", "10.1.0.5")
COPIES = ["northeurope", "swedencentral", "uksouth", "francecentral"]
BUILD, JUMP = "10.0.2.0/28", "10.0.3.0/28"


def groups(region="westeurope", vault_tag="AzureKeyVault", *, connected=False, files=False):
    servers, service = SERVERS if connected else (), ServiceTraffic(vault_tag, files)
    subnets = {"training": OWN, "build": BUILD, "jump": JUMP}
    around = {role: Surroundings(own, (ENDPOINTS,), servers) for role, own in subnets.items()}
    return {
        "training": network_rules.training(region, around["training"], service),
        "build": network_rules.build(region, around["build"], service),
        "endpoints": network_rules.endpoints(
            ENDPOINTS, (OWN, BUILD), (JUMP, PEERS) if connected else ()
        ),
        "jump": jump(around["jump"], (BASTION,) if connected else ()),
    }


def egress(found: tuple[Rule, ...]) -> dict[tuple[str, str], tuple[str, ...]]:
    return {
        (",".join(rule.destinations), rule.protocol): rule.ports
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


EXAMPLES = [
    *(ROOT / name for name in ("README.md", "infra", "jobs", "tools/benchmarks", "docs")),
    *ROOT.glob("Pulumi.*.yaml"),
]
"""Settings, documents, and modules with defaults."""


def test_no_default_and_no_example_is_a_size_that_new_subscriptions_cannot_deploy():
    usable = {size.name for size in (*vm_sizes.BY_NAME.values(), *vm_sizes.OTHER)
              if size.status == "deployable"}  # fmt: skip
    named = {}
    for place in EXAMPLES:
        for path in place.rglob("*") if place.is_dir() else [place]:
            if path.suffix in {".py", ".md", ".yaml"} and path != Path(vm_sizes.__file__):
                for name in re.findall(r"Standard_[A-Z]+\d+\w+", path.read_text()):
                    named.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    assert "jobs/extras/serving/bodies.py" in named["Standard_D4as_v4"]
    assert {name: places for name, places in named.items() if name not in usable} == {}


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


@pytest.mark.parametrize("option", ["as it is", "monitor private link"])
def test_every_endpoint_finds_its_zones_and_no_zone_is_there_twice(option):
    kinds = settings_of("dev", **OPTIONS[option]).endpoint_kinds
    assert ("monitor" in kinds) == (option != "as it is")
    needed = dns_zones.needed(kinds)
    assert len(set(needed)) == len(needed)
    assert set(needed) == {zone for kind in kinds.values() for zone in kind.zones}
    assert len(kinds["workspace"].zones) == 2


@pytest.mark.parametrize(
    ("changes", "addresses"),
    [
        # Workspace 3, registry 2, each account and the vault 1, and the default account's files 1.
        ({}, 9),
        ({"monitoring.private_link": True}, 22),
        ({"monitoring.private_link": True, "registry.replicas": COPIES}, 26),
        (OPTIONS["everything theirs, with endpoints"], 3),
    ],
)
def test_the_subnet_has_room_for_the_addresses_of_all_endpoints(changes, addresses):
    settings = settings_of("dev", **changes)
    assert settings.endpoint_addresses == addresses <= ENDPOINT_ADDRESSES


@given(regions, tags, st.booleans())
def test_no_two_rules_share_a_direction_and_priority_or_a_name(region, vault_tag, connected):
    for found in groups(region, vault_tag, connected=connected).values():
        places = [(rule.direction, rule.priority) for rule in found]
        assert len(set(places)) == len(places)
        assert len({rule.name for rule in found}) == len(found)
        for rule in found:
            assert 100 <= rule.priority <= 4096
            assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,78}[a-z0-9]", rule.name)
            assert 0 < len(rule.why) <= 140


@given(regions, tags, st.booleans())
def test_what_no_rule_lets_through_is_denied(region, vault_tag, connected):
    for found in groups(region, vault_tag, connected=connected).values():
        for direction in ("Inbound", "Outbound"):
            last = max(
                (rule for rule in found if rule.direction == direction),
                key=lambda rule: rule.priority,
            )
            assert (last.access, last.protocol, last.ports) == ("Deny", "*", ("*",))
            assert (last.sources, last.destinations) == (("*",), ("*",))


SERVICES = {
    ("AzureActiveDirectory", "Tcp"): ("80", "443"),
    ("AzureMachineLearning", "Tcp"): ("443", "8787", "18881"),
    ("AzureMachineLearning", "Udp"): ("5831",),
    ("BatchNodeManagement.westeurope", "*"): ("443",),
    ("AzureResourceManager", "Tcp"): ("443",),
    ("Storage.westeurope", "Tcp"): ("443",),
    ("MicrosoftContainerRegistry", "Tcp"): ("443",),
    ("AzureFrontDoor.FirstParty", "Tcp"): ("443",),
    ("AzureMonitor", "Tcp"): ("443",),
}


@pytest.mark.parametrize("vault_tag", ["AzureKeyVault", "Keyvault"])
def test_training_reaches_its_subnet_the_endpoints_and_what_the_service_needs(vault_tag):
    assert egress(groups(vault_tag=vault_tag)["training"]) == SERVICES | {
        (OWN, "*"): ("*",),
        (ENDPOINTS, "Tcp"): ("443", "445"),
        (f"{vault_tag}.westeurope", "Tcp"): ("443",),
    }


def test_nodes_reach_the_regions_storage_over_smb_only_where_the_settings_say_so():
    for files, ports in ((False, ("443",)), (True, ("443", "445"))):
        for role in ("training", "build"):
            assert egress(groups(files=files)[role])["Storage.westeurope", "Tcp"] == ports


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


def inside(found: tuple[Rule, ...], direction: str) -> set[tuple[tuple[str, ...], ...]]:
    """Private sources or destinations of the allowed traffic, with its ports."""
    return {
        (other, rule.ports)
        for rule in found
        if (rule.direction, rule.access) == (direction, "Allow")
        and (other := rule.sources if direction == "Inbound" else rule.destinations)[0][0].isdigit()
    }


def test_machines_reach_their_own_subnet_the_endpoints_and_no_other_private_address():
    for role, own, ports in [
        ("training", OWN, ("443", "445")),
        ("build", BUILD, ("443", "445")),
        ("jump", JUMP, ("443",)),
    ]:
        reached = {((own,), ("*",)), ((ENDPOINTS,), ports)}
        assert inside(groups()[role], "Outbound") == reached
        with_servers = reached | {(SERVERS, ("53",))}
        assert inside(groups(connected=True)[role], "Outbound") == with_servers


def test_only_the_own_subnet_comes_in_and_peers_reach_the_endpoints_alone():
    for connected in (False, True):
        found = groups(connected=connected)
        assert inside(found["training"], "Inbound") == {((OWN,), ("*",))}
        assert inside(found["build"], "Inbound") == {((BUILD,), ("*",))}
    assert inside(groups()["jump"], "Inbound") == {((JUMP,), ("*",))}
    assert inside(found["jump"], "Inbound") == {
        ((JUMP,), ("*",)),
        ((BASTION,), ("22", "3389")),
    }
    assert inside(groups()["endpoints"], "Inbound") == {((OWN, BUILD), ("443", "445"))}
    assert inside(found["endpoints"], "Inbound") == {
        ((OWN, BUILD), ("443", "445")),
        ((JUMP, PEERS), ("443",)),
    }


def test_no_rule_names_a_tag_that_may_mean_every_address():
    for found in groups(connected=True).values():
        for rule in found:
            assert "VirtualNetwork" not in (*rule.sources, *rule.destinations)
            assert rule.access == "Deny" or rule.sources[0][0].isdigit()
