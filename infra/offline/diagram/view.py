"""What the picture shows, read from declared resources. Pure, independent of drawing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.catalog import resource_ids, roles
from infra.resources import (
    ASSIGNMENT,
    BASTION,
    COMPUTE,
    CONTAINER,
    GROUP,
    IDENTITY,
    INSIGHTS,
    INTERFACE,
    LOGS,
    MACHINE,
    NETWORK,
    REGISTRY,
    SCHEDULE,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
)

ENDPOINT = "network:PrivateEndpoint"
DNS_ZONE = "privatedns:PrivateZone"
MONITOR = "monitor:PrivateLinkScope"
SERVICES = (WORKSPACE, REGISTRY, VAULT, STORAGE, MONITOR)
"""Services that a private endpoint may connect to, in display order."""
GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SERVICE_SEGMENTS = 9
"""Segments in the id of a service, with the empty one before the first slash."""


@dataclass(frozen=True)
class Grants:
    """Roles of one identity or group."""

    who: str
    roles: tuple[tuple[str, ...], ...]
    """Role names by column."""


@dataclass(frozen=True)
class Card:
    """A titled box with its most important properties."""

    kind: str
    """`module:Kind` of the resource; empty for an existing resource that the stack does not
    declare."""
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subnet:
    """A subnet and its contents."""

    name: str
    lines: tuple[str, ...]
    clusters: tuple[Card, ...]
    has_endpoints: bool
    reaches_endpoints: bool
    way_out: str
    """How outbound traffic leaves it; empty if it has no way out, or one that is not known."""


@dataclass(frozen=True)
class Service:
    """A service, its private endpoints, and who may reach it from outside."""

    card: Card
    endpoints: tuple[Card, ...]
    reached_from: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """Everything that the picture shows of one stack."""

    title: str
    network: Card
    subnets: tuple[Subnet, ...]
    ways_out: tuple[Card, ...]
    services: tuple[Service, ...]
    zones: tuple[str, ...]
    zones_exist: bool
    """Whether the zones existed before; the stack only records its endpoints in them."""
    columns: tuple[str, ...]
    """Scopes of the role assignments, in the order of `Grants.roles`."""
    grants: tuple[Grants, ...]
    operations: tuple[Card, ...]


def view(resources: Sequence[Resource]) -> View:
    """Return the view of a stack's resources, independent of their order."""
    resources = sorted(resources, key=lambda resource: (resource.type, resource.name))
    groups = of_kind(resources, GROUP)
    title = " ".join(_text(resource, "resourceGroupName") for resource in groups)
    regions = sorted({_text(resource, "location") for resource in groups})
    networks = of_kind(resources, NETWORK)
    zones = [_text(zone, "privateZoneName") for zone in of_kind(resources, DNS_ZONE)]
    columns = _scopes(resources)
    return View(
        title=" · ".join([title, *regions]),
        network=_network(networks[0]) if networks else _existing_network(resources),
        subnets=_subnets(resources),
        ways_out=tuple(
            _way_out(resource, resources) for resource in of_kind(resources, "network:NatGateway")
        ),
        services=_services(resources),
        zones=tuple(sorted(zones or _existing_zones(resources))),
        zones_exist=not zones,
        columns=tuple(title for title, _ in columns),
        grants=_grants(resources, columns),
        operations=_operations(resources),
    )


def _network(network: Resource) -> Card:
    space = ", ".join(entries_at(network, "addressSpace.addressPrefixes"))
    peers = [
        f"peered with {resource_ids.name(_reference(peering, 'remoteVirtualNetwork'))}"
        + (", whose gateway it uses" if peering.get("useRemoteGateways") else "")
        for peering in entries_at(network, "virtualNetworkPeerings")
    ]
    servers = entries_at(network, "dhcpOptions.dnsServers")
    dns = [f"DNS servers {', '.join(servers)}"] if servers else []
    title = f"Virtual network {_text(network, 'virtualNetworkName')}"
    return Card(NETWORK, title, (space, *peers, *dns))


def _existing_network(resources: Sequence[Resource]) -> Card:
    """Return the card of an existing network, identified by the subnets of the endpoints."""
    subnets = [_text(endpoint, "subnet.id") for endpoint in of_kind(resources, ENDPOINT)]
    names = sorted({resource_ids.name(subnet.partition("/subnets/")[0]) for subnet in subnets})
    return Card("", " ".join(["Existing virtual network", *names]))


def _existing_zones(resources: Sequence[Resource]) -> set[str]:
    """Return the names of the zones in which the endpoints are recorded."""
    return {
        resource_ids.name(str(config.get("privateDnsZoneId", "")))
        for group in of_kind(resources, "network:PrivateDnsZoneGroup")
        for config in entries_at(group, "privateDnsZoneConfigs")
    }


def _subnets(resources: Sequence[Resource]) -> tuple[Subnet, ...]:
    declared = {
        f"{network.id}/subnets/{subnet['name']}".lower(): subnet
        for network in of_kind(resources, NETWORK)
        for subnet in entries_at(network, "subnets")
    }
    clusters: dict[str, list[Card]] = {}
    for compute in of_kind(resources, COMPUTE):
        where = _text(compute, "properties.properties.subnet.id").lower()
        clusters.setdefault(where, []).append(_cluster(compute))
    for where, card in _machines(resources):
        clusters.setdefault(where, []).append(card)
    endpoints = {_text(endpoint, "subnet.id").lower() for endpoint in of_kind(resources, ENDPOINT)}
    views = []
    for where in dict.fromkeys([*declared, *clusters, *sorted(endpoints)]):
        subnet = declared.get(where, {})
        lines = _subnet_lines(subnet, resources) if subnet else ("existing",)
        views.append(
            Subnet(
                name=str(subnet.get("name", resource_ids.name(where))),
                lines=lines,
                clusters=tuple(clusters.get(where, ())),
                has_endpoints=where in endpoints,
                reaches_endpoints=any(one.kind != BASTION for one in clusters.get(where, ())),
                way_out=_leaves_by(subnet),
            )
        )
    return tuple(views)


def _machines(resources: Sequence[Resource]) -> list[tuple[str, Card]]:
    """Return the jump machine and Bastion, each with the id of its subnet."""
    subnets = {
        interface.id.lower(): _reference(address, "subnet").lower()
        for interface in of_kind(resources, INTERFACE)
        for address in entries_at(interface, "ipConfigurations")
    }
    times = [
        f"off at {_text(one, 'dailyRecurrence.time')} {_text(one, 'timeZoneId')}"
        for one in of_kind(resources, SCHEDULE)
    ]
    cards = []
    for machine in of_kind(resources, MACHINE):
        size = _text(machine, "hardwareProfile.vmSize").removeprefix("Standard_")
        card = Card(MACHINE, _text(machine, "vmName"), (size, "no public address", *times))
        interfaces = entries_at(machine, "networkProfile.networkInterfaces")
        cards += [(subnets[str(one["id"]).lower()], card) for one in interfaces]
    for bastion in of_kind(resources, BASTION):
        facts = (_text(bastion, "sku.name"), "SSH to the jump machine", "HTTPS from outside")
        card = Card(BASTION, _text(bastion, "bastionHostName"), facts)
        addresses = entries_at(bastion, "ipConfigurations")
        cards += [(_reference(one, "subnet").lower(), card) for one in addresses]
    return cards


def _leaves_by(subnet: Mapping[str, object]) -> str:
    if _reference(subnet, "natGateway"):
        return "outbound through NAT"
    routes = _reference(subnet, "routeTable")
    return f"outbound by the existing route table {resource_ids.name(routes)}" if routes else ""


def _subnet_lines(subnet: Mapping[str, object], resources: Sequence[Resource]) -> tuple[str, ...]:
    nsg_id = _reference(subnet, "networkSecurityGroup").lower()
    rules = [
        f"{len(entries_at(nsg, 'securityRules'))} security rules, everything else denied"
        for nsg in of_kind(resources, "network:NetworkSecurityGroup")
        if nsg.id.lower() == nsg_id
    ]
    policies = (
        ["service endpoint policy on storage"] if subnet.get("serviceEndpointPolicies") else []
    )
    return (str(subnet.get("addressPrefix", "")), *rules, *policies)


def _cluster(compute: Resource) -> Card:
    nodes = "properties.properties."
    priority = {"LowPriority": "low priority", "Dedicated": "dedicated"}
    least, most = (_text(compute, f"{nodes}scaleSettings.{key}NodeCount") for key in ("min", "max"))
    identities = [
        resource_ids.name(identity)
        for identity in entries_at(compute, "identity.userAssignedIdentities")
    ]
    return Card(
        COMPUTE,
        _text(compute, "computeName"),
        (
            _text(compute, nodes + "vmSize").removeprefix("Standard_"),
            priority.get(_text(compute, nodes + "vmPriority"), ""),
            f"{_whole(least)} to {_whole(most)} nodes",
            *identities,
        ),
    )


def _whole(number: str) -> str:
    return number.removesuffix(".0")


def _way_out(gateway: Resource, resources: Sequence[Resource]) -> Card:
    address_ids = {
        str(address.get("id")).lower() for address in entries_at(gateway, "publicIpAddresses")
    }
    names = [
        f"public address {_text(address, 'publicIpAddressName')}"
        for address in of_kind(resources, "network:PublicIPAddress")
        if address.id.lower() in address_ids
    ]
    return Card(
        gateway.kind, f"NAT gateway {_text(gateway, 'natGatewayName')}", ("outbound only", *names)
    )


def _services(resources: Sequence[Resource]) -> tuple[Service, ...]:
    endpoints_by_target: dict[str, list[Card]] = {}
    target_ids: dict[str, str] = {}
    for endpoint in of_kind(resources, ENDPOINT):
        for connection in entries_at(endpoint, "privateLinkServiceConnections"):
            target = str(connection.get("privateLinkServiceId", ""))
            groups = ", ".join(connection.get("groupIds") or ())
            card = Card(ENDPOINT, _text(endpoint, "privateEndpointName"), (groups,))
            target_ids[target.lower()] = target
            endpoints_by_target.setdefault(target.lower(), []).append(card)
    services = []
    for kind in SERVICES:
        for service in of_kind(resources, kind):
            endpoints = tuple(endpoints_by_target.pop(service.id.lower(), ()))
            services.append(Service(_service(service, resources), endpoints, _outside(service)))
    for target, others in endpoints_by_target.items():
        services.append(_existing_service(target_ids[target], "existing", tuple(others)))
    drawn = {resource.id.lower() for resource in resources} | target_ids.keys()
    for assignment in of_kind(resources, ASSIGNMENT):
        segments = _text(assignment, "scope").split("/")[:SERVICE_SEGMENTS]
        id_ = "/".join(segments)
        if len(segments) == SERVICE_SEGMENTS and id_.lower() not in drawn:
            drawn.add(id_.lower())
            services.append(_existing_service(id_, "existing, as are its endpoints"))
    return tuple(services)


def _existing_service(id_: str, fact: str, endpoints: tuple[Card, ...] = ()) -> Service:
    return Service(Card("", resource_ids.name(id_), (fact,)), endpoints, ())


def _service(service: Resource, resources: Sequence[Resource]) -> Card:
    kind = service.kind
    if kind == WORKSPACE:
        facts = ["high business impact"] if input_at(service, "hbiWorkspace") else []
        if input_at(service, "systemDatastoresAuthMode") == "Identity":
            facts.append("no keys")
        return Card(kind, f"Workspace {_text(service, 'workspaceName')}", tuple(facts))
    if kind == REGISTRY:
        facts = [_text(service, "sku.name")]
        if input_at(service, "adminUserEnabled") is False:
            facts.append("no admin user")
        return Card(kind, f"Container registry {_text(service, 'registryName')}", tuple(facts))
    if kind == VAULT:
        roles = input_at(service, "properties.enableRbacAuthorization")
        purge = input_at(service, "properties.enablePurgeProtection")
        facts = (["roles only"] if roles else []) + (["purge protection"] if purge else [])
        return Card(kind, f"Key vault {_text(service, 'vaultName')}", tuple(facts))
    if kind == STORAGE:
        name = _text(service, "accountName")
        containers = [
            _text(container, "containerName")
            for container in of_kind(resources, CONTAINER)
            if input_at(container, "accountName") == name
        ]
        facts = [_text(service, "sku.name").replace("_", " ")]
        if input_at(service, "allowSharedKeyAccess") is False:
            facts.append("no keys")
        if containers:
            facts.append("containers " + ", ".join(sorted(containers)))
        return Card(kind, f"Storage {name}", tuple(facts))
    return Card(kind, f"Azure Monitor {_text(service, 'scopeName')}", ("private link scope",))


def _outside(service: Resource) -> tuple[str, ...]:
    """Return who can reach a service from outside the network."""
    access = input_at(service, "publicNetworkAccess")
    if not isinstance(access, str) or access.lower() != "enabled":
        return ()
    rules = entries_at(service, "networkRuleSet.ipRules")
    return tuple(str(rule.get("iPAddressOrRange")) for rule in rules) or ("Entra sign-in",)


def _operations(resources: Sequence[Resource]) -> tuple[Card, ...]:
    cards = []
    for logs in of_kind(resources, LOGS):
        days, cap = _text(logs, "retentionInDays"), _text(logs, "workspaceCapping.dailyQuotaGb")
        facts = (
            _text(logs, "workspaceName"),
            f"{_whole(days)} days, {_whole(cap)} GB a day at most",
        )
        cards.append(Card(LOGS, "Log Analytics", facts))
    cards += [
        Card(INSIGHTS, "Application Insights", (_text(resource, "resourceName"),))
        for resource in of_kind(resources, INSIGHTS)
    ]
    settings = of_kind(resources, "monitor:DiagnosticSetting")
    if settings:
        kind = settings[0].kind
        cards.append(Card(kind, "Diagnostic settings", (f"for {len(settings)} resources",)))
    alerts = of_kind(resources, "monitor:ScheduledQueryRule")
    if alerts:
        names = ", ".join(sorted(resource.name.removeprefix("alert-") for resource in alerts))
        cards.append(Card(alerts[0].kind, "Alerts", (names,)))
    for budget in of_kind(resources, "consumption:Budget"):
        amount = f"{_whole(_text(budget, 'amount'))} a month"
        kinds = {
            str(resource.get("thresholdType")).lower()
            for resource in (input_at(budget, "notifications") or {}).values()
        }
        cards.append(
            Card(budget.kind, "Budget", (amount, "notifies of: " + ", ".join(sorted(kinds))))
        )
    return tuple(cards)


def _scopes(resources: Sequence[Resource]) -> list[tuple[str, str]]:
    """Return titles and ids of the scopes of role assignments, in the order of the services; a
    container's scope is its account. Roles on endpoints, which let the studio find an account, are
    left out.
    """
    scope_ids = {
        scope.lower(): scope
        for resource in of_kind(resources, ASSIGNMENT)
        for scope, _ in [_account_and_container(_text(resource, "scope"))]
    }
    known = {resource.id.lower(): resource for resource in resources if resource.id}
    endpoints = {resource.id.lower() for resource in of_kind(resources, ENDPOINT)}
    order = {kind: position for position, kind in enumerate((*SERVICES, INSIGHTS, GROUP))}

    def position(scope: str) -> tuple[int, str]:
        return (order.get(known[scope].kind, len(order)) if scope in known else -1, scope)

    scopes = sorted({scope for scope in scope_ids if scope not in endpoints}, key=position)
    return [(resource_ids.name(scope_ids[scope]), scope) for scope in scopes]


def _grants(
    resources: Sequence[Resource], columns: Sequence[tuple[str, str]]
) -> tuple[Grants, ...]:
    identities = {
        identity.key: _text(identity, "resourceName") for identity in of_kind(resources, IDENTITY)
    }
    roles_by_holder: dict[str, dict[str, set[str]]] = {}
    for assignment in of_kind(resources, ASSIGNMENT):
        needed = assignment.options.get("dependsOn", ())
        holder = next((identities[key] for key in needed if key in identities), None)
        if holder is None:
            groups = ("jump-users", "jump-administrators")
            plain = assignment.name.partition("-")[0]
            label = next((one for one in groups if assignment.name.startswith(f"{one}-")), plain)
            holder = f"{label} (group)"
        role = resource_ids.name(_text(assignment, "roleDefinitionId"))
        scope, container = _account_and_container(_text(assignment, "scope"))
        role_names = roles_by_holder.setdefault(holder, {}).setdefault(scope.lower(), set())
        details = [f"in {container}"] if container else []
        details += ["with a condition"] if _text(assignment, "condition") else []
        role_names.add(" ".join([roles.NAMES.get(role, role), *details]))
    return tuple(
        Grants(holder, tuple(tuple(sorted(role_names.get(scope, ()))) for _, scope in columns))
        for holder, role_names in sorted(roles_by_holder.items())
    )


def _account_and_container(scope: str) -> tuple[str, str]:
    """Return the service that a scope is in, and the container; empty if it is no container. The
    GUID in the name of a workspace's container is left out.
    """
    account, _, container = scope.partition("/blobServices/default/containers/")
    return account, GUID.sub("", container).strip("-")


def _text(resource: Resource, path: str) -> str:
    """Return the input at a dotted path as text; empty if there is none."""
    text = input_at(resource, path)
    return "" if text is None else str(text)


def _reference(part: Mapping[str, object], key: str) -> str:
    """Return the id that a part of a resource refers to; empty if there is none."""
    reference = part.get(key)
    return str(reference.get("id", "")) if isinstance(reference, Mapping) else ""
