"""Network resources: references must exist, and a referenced resource cannot be deleted."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id
from rehearsal.control_plane.http_messages import Request
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError

NAMESPACE = "Microsoft.Network"
NETWORK = f"{NAMESPACE}/virtualNetworks"
ENDPOINT = f"{NAMESPACE}/privateEndpoints"
INTERFACE = f"{NAMESPACE}/networkInterfaces"
BASTION = f"{NAMESPACE}/bastionHosts"
BASTION_SUBNET = "AzureBastionSubnet"
ZONE = f"{NAMESPACE}/privateDnsZones"
LINK = f"{ZONE}/virtualNetworkLinks"
_SUFFIXES = {
    **{part: f"{part}.core.windows.net" for part in ("blob", "file", "queue", "table", "dfs")},
    "vault": "vaultcore.azure.net",
    "registry": "azurecr.io",
    "amlworkspace": "api.azureml.ms",
}
"""Domains of the services behind private endpoints, by the sub-resource."""
_PRIVATE_ADDRESS = "10.0.0.4"
_PUBLIC_ADDRESS = "203.0.113.1"
"""An address for documents (RFC 5737): nothing answers there."""
_IN_USE = {
    NETWORK: "InUseSubnetCannotBeDeleted",
    f"{NETWORK}/subnets": "InUseSubnetCannotBeDeleted",
    f"{NAMESPACE}/networkSecurityGroups": "InUseNetworkSecurityGroupCannotBeDeleted",
    f"{NAMESPACE}/natGateways": "NatGatewayInUseCannotBeDeleted",
    f"{NAMESPACE}/publicIPAddresses": "PublicIPAddressCannotBeDeleted",
    INTERFACE: "NicInUse",
    f"{NAMESPACE}/serviceEndpointPolicies": "ServiceEndpointPolicyInUseCannotBeDeleted",
}
_CARDS = "network_cards"
_INTERFACES = f"/{NAMESPACE}/networkInterfaces/".lower()
_APPROVED = {"status": "Approved", "description": "Auto-Approved", "actionsRequired": "None"}


@dataclass(frozen=True)
class NetworkCards:
    """Network cards that Azure Batch has not removed yet from the subnets of deleted clusters."""

    store: Store
    seconds: float
    """Time until they are removed."""

    def leave(self, subnet: str) -> None:
        """Note that a cluster in a subnet was deleted just now."""
        if self.seconds:
            self.store.put(_CARDS, subnet, {"until": time.time() + self.seconds, "id": subnet})

    def user(self, identifier: str) -> str | None:
        """Return the interface that is still in a subnet, or in a subnet of a network."""
        known = [self.store.get(_CARDS, identifier), *self.store.below(_CARDS, identifier)]
        for card in known:
            if card is not None and card["until"] > time.time():
                group = str(card["id"]).partition("/providers/")[0]
                return f"{group}/providers/{INTERFACE}/azurebatch-nic/ipConfigurations/1"
        return None


class NetworkResource(ResourceKind):
    """A network resource that others may refer to."""

    def __init__(self, resources: ResourceManager, cards: NetworkCards) -> None:
        """Apply the rules to these resources."""
        self._resources, self._cards = resources, cards

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        for reference in _references(body.get("properties")):
            if self._resources.get(reference) is None:
                raise AzureError(
                    400,
                    "InvalidResourceReference",
                    f"Resource {reference} referenced by resource {path.id} was not found. Please"
                    " make sure that the referenced resource exists.",
                )

    @override
    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        code = _IN_USE.get(path.kind)
        user = self._user(path.id) if code else None
        if code and user is not None:
            raise AzureError(
                400,
                code,
                f"{path.kind} {path.name} cannot be deleted because it is in use by {user}.",
            )

    def _user(self, identifier: str) -> str | None:
        """Return another network resource that refers to this one, or to a part of it."""
        own = identifier.lower()
        for document in self._resources.below(part=f"/{NAMESPACE}/"):
            other = str(document["id"])
            if other.lower() == own or other.lower().startswith(f"{own}/"):
                continue
            for reference in _references(document.get("properties")):
                if reference.lower() == own or reference.lower().startswith(f"{own}/subnets/"):
                    return other
        return self._cards.user(identifier)


class VirtualNetwork(NetworkResource):
    """A network, whose subnets are resources too."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        for subnet in document["properties"].get("subnets") or []:
            subnet["id"] = f"{path.id}/subnets/{subnet['name']}"

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        subnets = {subnet["id"]: subnet for subnet in document["properties"].get("subnets") or []}
        given = {identifier.lower() for identifier in subnets}
        for known in self._resources.of_kind(f"{NETWORK}/subnets", path.id):
            if known["id"].lower() not in given:
                self._resources.discard(known["id"])
        for identifier, subnet in subnets.items():
            self._resources.put(identifier, {"properties": subnet.get("properties") or {}})


class PrivateEndpoint(NetworkResource):
    """A private endpoint."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        name = properties.get("customNetworkInterfaceName") or f"{path.name}.nic"
        interface = f"{path.parent}/providers/{NAMESPACE}/networkInterfaces/{name}"
        properties["networkInterfaces"] = [{"id": interface}]
        for connection in properties.get("privateLinkServiceConnections") or []:
            inner = connection.setdefault("properties", {})
            inner["privateLinkServiceConnectionState"] = dict(_APPROVED)

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties = document["properties"]
        if properties.get("provisioningState") == "Succeeded":
            properties["customDnsConfigs"] = [
                {"fqdn": f"{name}.{suffix}", "ipAddresses": [_PRIVATE_ADDRESS]}
                for name, suffix in _hosts(document)
            ]
        return document


class ZoneGroup(NetworkResource):
    """The private DNS zones of an endpoint, which get its records."""

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        endpoint = self._resources.get(path.parent) or {}
        for zone in document["properties"].get("privateDnsZoneConfigs") or []:
            identifier = str((zone.get("properties") or {}).get("privateDnsZoneId"))
            zone["properties"]["recordSets"] = [
                {
                    "recordType": "A",
                    "recordSetName": name,
                    "fqdn": f"{name}.{identifier.rpartition('/')[2]}",
                    "ttl": 10,
                    "provisioningState": "Succeeded",
                    "ipAddresses": [_PRIVATE_ADDRESS],
                }
                for name, suffix in _hosts(endpoint)
                if identifier.lower().endswith(f"/privatelink.{suffix}")
            ]
        return document


def _hosts(endpoint: Document) -> Iterator[tuple[str, str]]:
    """Yield the name and the domain of each service that an endpoint leads to."""
    for connection in (endpoint.get("properties") or {}).get("privateLinkServiceConnections") or []:
        own = connection.get("properties") or {}
        target = str(own.get("privateLinkServiceId")).rstrip("/")
        for part in own.get("groupIds") or []:
            if part in _SUFFIXES:
                yield target.rpartition("/")[2].lower(), _SUFFIXES[part]


class PublicAddress(NetworkResource):
    """A public address; a static one is there at once, and a dynamic one when it is used."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        properties = document["properties"]
        if before is not None or properties.get("publicIPAllocationMethod") == "Static":
            properties["ipAddress"] = _PUBLIC_ADDRESS
        label = (properties.get("dnsSettings") or {}).get("domainNameLabel")
        if label:
            host = f"{label}.{document.get('location')}.cloudapp.azure.com"
            properties["dnsSettings"] = {**properties["dnsSettings"], "fqdn": host}

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        user = self._user(path.id)
        if user is not None:
            document["properties"]["ipConfiguration"] = {"id": f"{user}/ipConfigurations/1"}
        return document


class PrivateZone(ResourceKind):
    """A private DNS zone, which may be linked to networks."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        document["properties"]["internalId"] = known.get("internalId") or new_id()

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties = document["properties"]
        properties["numberOfVirtualNetworkLinks"] = len(self._resources.of_kind(LINK, path.id))
        if path.version and path.version < "2024":
            properties.pop("internalId", None)
        return document

    @override
    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        links = self._resources.of_kind(LINK, path.id)
        if links:
            name = f"{ZONE}/{path.name}/virtualNetworkLinks/{links[0]['name']}"
            raise AzureError(
                409,
                "CannotDeleteResource",
                "Cannot delete resource while nested resources exist. Some existing nested resource"
                f" IDs include: '{name}'. Please delete all nested resources before deleting this"
                " resource.",
            )


class ZoneLink(NetworkResource):
    """A link of a private DNS zone to a network, which may have one zone of each name."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        super().check(path, body, before)
        network, zone = _network_of(body), path.parent.rpartition("/")[2]
        for other in self._resources.of_kind(LINK):
            above = str(other["id"]).rpartition("/virtualNetworkLinks/")[0]
            if (
                _network_of(other) == network
                and above.lower() != path.parent.lower()
                and above.rpartition("/")[2].lower() == zone.lower()
            ):
                raise AzureError(
                    400,
                    "BadRequest",
                    f"A virtual network cannot be linked to multiple zones with overlapping"
                    f" namespaces. You tried to link virtual network with '{zone}' and '{zone}'"
                    " zones.",
                )


def _network_of(link: Document) -> str:
    network = (link.get("properties") or {}).get("virtualNetwork") or {}
    return str(network.get("id")).lower()


class BastionHost(NetworkResource):
    """A Bastion, in the subnet that Azure has for it."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        known = {} if before is None else before["properties"]
        properties = document["properties"]
        properties["dnsName"] = known.get("dnsName") or f"bst-{new_id()}.bastion.azure.com"

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties = document["properties"]
        if path.version and path.version < "2025":
            properties.pop("dnsName", None)
        else:
            properties["publicUri"] = path.id
        return document

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        super().check(path, body, before)
        for configuration in body["properties"].get("ipConfigurations") or []:
            subnet = str(configuration["properties"]["subnet"]["id"])
            known = self._resources.get(subnet) or {}
            prefix = str((known.get("properties") or {}).get("addressPrefix", ""))
            if (
                not subnet.lower().endswith(f"/{BASTION_SUBNET}".lower())
                or int(prefix.partition("/")[2]) > 26
            ):
                raise AzureError(
                    400,
                    "BastionHostSubnetNotAllowed",
                    f"Bastion {path.name} must be in a subnet named {BASTION_SUBNET} with a prefix"
                    f" of at least /26, and not in {subnet} ({prefix}).",
                )


def _references(value: Any) -> Iterator[str]:
    """Yield ids in a body that refer to network resources, except interfaces made by Azure."""
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key == "subnets":
                # The ids of the parts themselves are not references.
                for subnet in item:
                    yield from _references(subnet.get("properties"))
            elif key != "id":
                yield from _references(item)
            elif f"/{NAMESPACE}/".lower() in str(item).lower() and (
                _INTERFACES not in str(item).lower()
            ):
                yield str(item)


def kinds(resources: ResourceManager, cards: NetworkCards) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    referenced = NetworkResource(resources, cards)
    return {
        **dict.fromkeys(_IN_USE, referenced),
        BASTION: BastionHost(resources, cards),
        f"{NAMESPACE}/publicIPAddresses": PublicAddress(resources, cards),
        ZONE: PrivateZone(resources),
        LINK: ZoneLink(resources, cards),
        NETWORK: VirtualNetwork(resources, cards),
        ENDPOINT: PrivateEndpoint(resources, cards),
        f"{ENDPOINT}/privateDnsZoneGroups": ZoneGroup(resources, cards),
    }
