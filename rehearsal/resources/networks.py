"""Network resources: references must exist, and a referenced resource cannot be deleted."""

from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError

NAMESPACE = "Microsoft.Network"
NETWORK = f"{NAMESPACE}/virtualNetworks"
ENDPOINT = f"{NAMESPACE}/privateEndpoints"
INTERFACE = f"{NAMESPACE}/networkInterfaces"
BASTION = f"{NAMESPACE}/bastionHosts"
BASTION_SUBNET = "AzureBastionSubnet"
_IN_USE = {
    NETWORK: "InUseSubnetCannotBeDeleted",
    f"{NAMESPACE}/networkSecurityGroups": "InUseNetworkSecurityGroupCannotBeDeleted",
    f"{NAMESPACE}/natGateways": "NatGatewayInUseCannotBeDeleted",
    f"{NAMESPACE}/publicIPAddresses": "PublicIPAddressCannotBeDeleted",
    INTERFACE: "NicInUse",
    f"{NAMESPACE}/serviceEndpointPolicies": "ServiceEndpointPolicyInUseCannotBeDeleted",
}
_INTERFACES = f"/{NAMESPACE}/networkInterfaces/".lower()
_APPROVED = {"status": "Approved", "description": "Auto-Approved", "actionsRequired": "None"}


class NetworkResource(ResourceKind):
    """A network resource that others may refer to."""

    def __init__(self, resources: ResourceManager) -> None:
        """Apply the rules to these resources."""
        self._resources = resources

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
    def delete(self, path: ArmPath, document: Document, request: Request) -> Response:
        user = self._user(path.id)
        if user is not None and path.kind in _IN_USE:
            raise AzureError(
                400,
                _IN_USE[path.kind],
                f"{path.kind} {path.name} cannot be deleted because it is in use by {user}.",
            )
        return Response(200)

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
        return None


class VirtualNetwork(NetworkResource):
    """A network, whose subnets are resources too."""

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        for subnet in document["properties"].get("subnets") or []:
            subnet["id"] = f"{path.id}/subnets/{subnet['name']}"

    @override
    def after_put(self, path: ArmPath, document: Document) -> None:
        subnets = {subnet["id"]: subnet for subnet in document["properties"].get("subnets") or []}
        for known in self._resources.of_kind(f"{NETWORK}/subnets", path.id):
            if known["id"] not in subnets:
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


class BastionHost(NetworkResource):
    """A Bastion, in the subnet that Azure has for it."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        super().check(path, body, before)
        for configuration in body["properties"].get("ipConfigurations") or []:
            subnet = str(configuration["properties"]["subnet"]["id"])
            known = self._resources.get(subnet) or {}
            prefix = str((known.get("properties") or {}).get("addressPrefix", ""))
            if not subnet.endswith(f"/{BASTION_SUBNET}") or int(prefix.partition("/")[2]) > 26:
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


def kinds(resources: ResourceManager) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    referenced = NetworkResource(resources)
    return {
        **dict.fromkeys(_IN_USE, referenced),
        BASTION: BastionHost(resources),
        f"{NAMESPACE}/privateDnsZones/virtualNetworkLinks": referenced,
        NETWORK: VirtualNetwork(resources),
        ENDPOINT: PrivateEndpoint(resources),
    }
