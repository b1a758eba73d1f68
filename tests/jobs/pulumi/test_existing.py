"""The resources that a stack takes from others are looked up before anything is made."""

from copy import deepcopy

import pytest

from common.errors import UserError
from infra import prerequisites as contract
from infra.stack_config import assign
from infra.validation import load
from jobs.errors import AccessError, MissingError
from jobs.pulumi.existing import look_up
from tests.infra.support.configurations import SUBSCRIPTION, configured
from tests.requests_sent import note
from tools.conformance.sent import Sent

HUB = f"{SUBSCRIPTION}/resourceGroups/hub"
VNET = f"{HUB}/providers/Microsoft.Network/virtualNetworks/spoke"
ZONE = f"{HUB}/providers/Microsoft.Network/privateDnsZones/privatelink.azurecr.io"
REGISTRY = f"{HUB}/providers/Microsoft.ContainerRegistry/registries/theirs"
VAULT = f"{HUB}/providers/Microsoft.KeyVault/vaults/central"
KEY = f"{VAULT}/keys/platform/versions/0123"
BASTION = f"{HUB}/providers/Microsoft.Network/bastionHosts/hub"
FEATURE = (
    f"{SUBSCRIPTION}/providers/Microsoft.Features/providers/Microsoft.Compute/features"
    "/EncryptionAtHost"
)
SETTINGS = {
    "network.existing": {
        "virtual_network": VNET,
        "training_subnet": f"{VNET}/subnets/nodes",
        "build_subnet": f"{VNET}/subnets/images",
        "endpoints_subnet": f"{VNET}/subnets/endpoints",
    },
    "network.existing_dns_zones": HUB,
    "registry.existing": REGISTRY,
    "vault.existing": VAULT,
    "encryption.customer_managed_keys": True,
    "encryption.key_uri": "https://central.vault.azure.net/keys/platform/0123",
}
JUMP = {
    "access.jump_machine": True,
    "access.users": "33333333-3333-3333-3333-333333333334",
    "access.public_key": f"ssh-ed25519 {'A' * 68}",
    "access.existing_bastion": BASTION,
    "network.jump_access": ["10.0.1.0/26"],
    "network.peer_with": [VNET],
    "network.peer_address_spaces": ["10.0.0.0/16"],
}
NEEDS = [
    *contract.of(load(configured(*SETTINGS.items()))).existing,
    *(
        one
        for one in contract.of(load(configured(*JUMP.items()))).existing
        if one.id in {BASTION, FEATURE}
    ),
]


def subnet(prefix, used=0):
    return {"properties": {"addressPrefix": prefix, "ipConfigurations": [{}] * used}}


def good():
    """Azure's answers where everything is as the stack needs it."""
    link = {"properties": {"virtualNetwork": {"id": VNET.upper()}}}
    zones = [one.id for one in NEEDS if one.check == "zones"]
    providers = [one.id for one in NEEDS if one.check == "providers"]
    return {
        VNET: {"location": "westeurope"},
        f"{VNET}/subnets/nodes": subnet("10.9.0.0/28", used=2),
        f"{VNET}/subnets/images": subnet("10.9.1.0/29", used=2),
        f"{VNET}/subnets/endpoints": subnet("10.9.2.0/28"),
        REGISTRY: {"sku": {"name": "Premium"}, "location": "westeurope"},
        VAULT: {"properties": {"enableRbacAuthorization": True, "enablePurgeProtection": True}},
        KEY: {"properties": {"kty": "RSA", "attributes": {"enabled": True}}},
        BASTION: {},
        FEATURE: {"properties": {"state": "Registered"}},
        **{zone: {} for zone in zones},
        **{f"{zone}/virtualNetworkLinks": [link] for zone in zones},
        **{provider: {"registrationState": "Registered"} for provider in providers},
    }


class Answers:
    """Resource Manager with fixed answers; resources without one do not exist."""

    def __init__(self, bodies):
        self._bodies = bodies

    def get(self, path, version):
        if path not in self._bodies:
            raise MissingError("not found")
        note(Sent("GET", path, "", version))
        if self._bodies[path] == "forbidden":
            raise AccessError("forbidden")
        return self._bodies[path]

    items = get


def said(bodies, *, deployed=False):
    try:
        return look_up(Answers(bodies), NEEDS, deployed=deployed)
    except UserError as error:
        return str(error)


def test_what_is_as_the_stack_needs_it_is_counted():
    assert said(good()) == f"{len(NEEDS)} as needed"


@pytest.mark.parametrize(
    ("at", "path", "value", "says"),
    [
        (VNET, "location", "northeurope", ("network.existing.virtual_network: spoke has location",
         "must have 'westeurope'", "deploy the stack to that region")),
        (f"{VNET}/subnets/nodes", "properties.delegations", [{"name": "aci"}],
         ("training_subnet: nodes has delegations", "no delegation")),
        (f"{VNET}/subnets/images", "properties.privateEndpointNetworkPolicies", "Enabled",
         ("build_subnet: images has privateEndpointNetworkPolicies 'Enabled'",
          "must have 'Disabled'", "az network vnet subnet update")),
        (f"{VNET}/subnets/nodes", "properties.addressPrefix", "10.9.0.0/29",
         ("training_subnet: nodes has 1 free addresses, and the stack needs 4",)),
        (f"{VNET}/subnets/endpoints", "properties.addressPrefix", "10.9.2.0/29",
         ("endpoints_subnet: endpoints has 3 free addresses, and the stack needs 9",)),
        (f"{VNET}/subnets/nodes", "properties.addressPrefix", "172.17.4.0/24",
         ("training_subnet: nodes is in 172.17.4.0/24, which overlaps 172.17.0.0/16",
          "nodes' containers")),
        (REGISTRY, "sku.name", "Basic", ("registry.existing: theirs has name 'Basic'",
         "az acr update --sku Premium")),
        (VAULT, "properties.enableRbacAuthorization", False,
         ("vault.existing: central has enableRbacAuthorization False",)),
        (VAULT, "properties.enablePurgeProtection", None,
         ("enablePurgeProtection not set and must have True",)),
        (KEY, "properties.attributes.enabled", False, ("encryption.key_uri: 0123 has enabled",)),
        (FEATURE, "properties.state", "NotRegistered",
         ("EncryptionAtHost has state 'NotRegistered'", "az feature register")),
        (f"{SUBSCRIPTION}/providers/Microsoft.Storage", "registrationState", "NotRegistered",
         ("Microsoft.Storage has registrationState", "az provider register --namespace")),
    ],
)  # fmt: skip
def test_what_is_not_as_the_stack_needs_it_is_told_with_the_cure(at, path, value, says):
    bodies = deepcopy(good())
    bodies[at] = assign(bodies[at], path, value)
    for part in says:
        assert part in said(bodies)


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (ZONE, ("network.existing_dns_zones", "privatelink.azurecr.io does not exist", "dns zone")),
        (KEY, ("encryption.key_uri", "does not exist")),
        (f"{VNET}/subnets/images", ("network.existing.build_subnet", "does not exist")),
    ],
)
def test_what_does_not_exist_is_told_by_its_setting(at, says):
    bodies = {one: body for one, body in good().items() if one != at}
    for part in says:
        assert part in said(bodies)


def test_a_zone_without_a_link_needs_a_network_with_dns_servers():
    bodies = good() | {f"{ZONE}/virtualNetworkLinks": []}
    assert "privatelink.azurecr.io is not linked to spoke" in said(bodies)
    bodies[VNET] = bodies[VNET] | {"properties": {"dhcpOptions": {"dnsServers": ["10.0.0.4"]}}}
    assert said(bodies) == f"{len(NEEDS)} as needed"


def test_a_network_of_a_hub_with_its_own_zones_is_named_before_a_deployment():
    existing = ("network.existing", SETTINGS["network.existing"])
    (need,) = [one for one in contract.of(load(configured(existing))).existing if one.id == VNET]
    theirs = f"{HUB}/providers/Microsoft.Network/privateDnsZones/privatelink.blob.core.windows.net"
    own = next(zone for zone in need.zones if zone.endswith("/privatelink.blob.core.windows.net"))
    other = f"{HUB}/providers/Microsoft.Network/privateDnsZones/example.com"
    link = {"properties": {"virtualNetwork": {"id": VNET.upper()}}}
    zones = f"{SUBSCRIPTION}/providers/Microsoft.Network/privateDnsZones"
    bodies = {
        VNET: {"location": "westeurope"},
        zones: [{"id": own}, {"id": theirs}, {"id": other}],
        **{f"{zone}/virtualNetworkLinks": [link] for zone in (own, theirs, other)},
    }
    with pytest.raises(UserError, match=f"spoke is linked to {theirs}.*existing_dns_zones"):
        look_up(Answers(bodies), [need], deployed=False)
    unlinked = bodies | {f"{theirs}/virtualNetworkLinks": []}
    for known in (unlinked, bodies | {zones: "forbidden"}, {VNET: {"location": "westeurope"}}):
        assert look_up(Answers(known), [need], deployed=False) == "1 as needed"


def test_a_deployed_stack_needs_no_free_addresses_in_its_subnets():
    full = good() | {f"{VNET}/subnets/nodes": subnet("10.9.0.0/28", used=11)}
    assert "0 free addresses" in said(full)
    assert said(full, deployed=True) == f"{len(NEEDS)} as needed"


def test_what_may_not_be_read_is_named_and_does_not_stop_a_deployment():
    told = said(good() | {REGISTRY: "forbidden", VAULT: "forbidden"})
    assert told.startswith("not asked about registry.existing, vault.existing; ")


@pytest.mark.parametrize(
    ("hosts", "reason", "refused"),
    [
        (["theirs.northeurope.data.azurecr.io"], "", True),
        (["theirs.northeurope.data.azurecr.io"], "Two weeks of Spot.", False),
        (["theirs.northeurope.data.azurecr.io", "theirs.westeurope.data.azurecr.io"], "", False),
        (None, "", True),
    ],
)
def test_a_registry_of_another_region_needs_a_copy_here_or_a_reason(hosts, reason, refused):
    changed = [("registry.existing", REGISTRY)]
    changed += [("registry.remote_reason", reason)] if reason else []
    needs = [one for one in contract.of(load(configured(*changed))).existing if one.id == REGISTRY]
    body = {"sku": {"name": "Premium"}, "location": "northeurope"}
    body["properties"] = {} if hosts is None else {"dataEndpointHostNames": hosts}
    if not refused:
        assert look_up(Answers({REGISTRY: body}), needs, deployed=False)
        return
    with pytest.raises(UserError) as caught:
        look_up(Answers({REGISTRY: body}), needs, deployed=False)
    text = str(caught.value)
    assert "theirs has location 'northeurope' and dataEndpointHostNames" in text
    assert "add westeurope to registry.replicas of the stack that declares it" in text
    assert "registry.remote_reason" in text
