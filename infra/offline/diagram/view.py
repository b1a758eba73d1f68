"""What the picture shows, read from declared resources. Pure; nothing here knows of drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.catalog import resource_ids, roles
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    CONTAINER,
    GROUP,
    IDENTITY,
    INSIGHTS,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries,
    of,
    token,
    value,
)

ENDPOINT = "network:PrivateEndpoint"
MONITOR = "monitor:PrivateLinkScope"
SERVICES = (WORKSPACE, REGISTRY, VAULT, STORAGE, MONITOR)
"""What a private endpoint may lead to, in the order in which it is shown."""


@dataclass(frozen=True)
class Grants:
    """What one identity or group may do."""

    who: str
    roles: tuple[tuple[str, ...], ...]
    """Names of roles, by column."""


@dataclass(frozen=True)
class Card:
    """One thing, with what matters about it."""

    kind: str
    """`module:Kind` of the resource; empty for what the stack takes from someone else."""
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Subnet:
    """A subnet and what is in it."""

    name: str
    lines: tuple[str, ...]
    clusters: tuple[Card, ...]
    has_endpoints: bool
    leaves_by_nat: bool


@dataclass(frozen=True)
class Service:
    """A service, the endpoints that lead to it, and who may come from outside."""

    card: Card
    endpoints: tuple[Card, ...]
    reached_from: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """All that the picture shows of one stack."""

    title: str
    network: Card
    subnets: tuple[Subnet, ...]
    ways_out: tuple[Card, ...]
    services: tuple[Service, ...]
    zones: tuple[str, ...]
    columns: tuple[str, ...]
    """What roles are given on, as `Grants.roles` has it."""
    grants: tuple[Grants, ...]
    operations: tuple[Card, ...]


def view(resources: Sequence[Resource]) -> View:
    """The view of a stack's resources, whatever their order."""
    resources = sorted(resources, key=lambda one: (one.type, one.name))
    groups = of(resources, GROUP)
    title = " ".join(_text(one, "resourceGroupName") for one in groups)
    regions = sorted({_text(one, "location") for one in groups})
    networks = of(resources, NETWORK)
    zones = of(resources, "privatedns:PrivateZone")
    columns = _scopes(resources)
    return View(
        title=" · ".join([title, *regions]),
        network=_network(networks[0]) if networks else _existing_network(resources),
        subnets=_subnets(resources),
        ways_out=tuple(_way_out(one, resources) for one in of(resources, "network:NatGateway")),
        services=_services(resources),
        zones=tuple(sorted(_text(zone, "privateZoneName") for zone in zones)),
        columns=tuple(title for title, _ in columns),
        grants=_grants(resources, columns),
        operations=_operations(resources),
    )


def _network(network: Resource) -> Card:
    space = ", ".join(entries(network, "addressSpace.addressPrefixes"))
    peers = [
        f"peered with {resource_ids.name(_reference(peering, 'remoteVirtualNetwork'))}"
        for peering in entries(network, "virtualNetworkPeerings")
    ]
    return Card(NETWORK, f"Virtual network {_text(network, 'virtualNetworkName')}", (space, *peers))


def _existing_network(resources: Sequence[Resource]) -> Card:
    """Someone else's network, known from the subnets that endpoints are in."""
    subnets = [_text(one, "subnet.id") for one in of(resources, ENDPOINT)]
    names = sorted({resource_ids.name(subnet.partition("/subnets/")[0]) for subnet in subnets})
    return Card("", " ".join(["Existing virtual network", *names]))


def _subnets(resources: Sequence[Resource]) -> tuple[Subnet, ...]:
    declared = {
        f"{network.id}/subnets/{subnet['name']}".lower(): subnet
        for network in of(resources, NETWORK)
        for subnet in entries(network, "subnets")
    }
    clusters: dict[str, list[Card]] = {}
    for compute in of(resources, COMPUTE):
        where = _text(compute, "properties.properties.subnet.id").lower()
        clusters.setdefault(where, []).append(_cluster(compute))
    endpoints = {_text(one, "subnet.id").lower() for one in of(resources, ENDPOINT)}
    found = []
    for where in dict.fromkeys([*declared, *clusters, *sorted(endpoints)]):
        subnet = declared.get(where, {})
        lines = _subnet_lines(subnet, resources) if subnet else ("existing",)
        found.append(
            Subnet(
                name=str(subnet.get("name", resource_ids.name(where))),
                lines=lines,
                clusters=tuple(clusters.get(where, ())),
                has_endpoints=where in endpoints,
                leaves_by_nat=bool(_reference(subnet, "natGateway")),
            )
        )
    return tuple(found)


def _subnet_lines(subnet: Mapping[str, object], resources: Sequence[Resource]) -> tuple[str, ...]:
    group = _reference(subnet, "networkSecurityGroup").lower()
    rules = [
        f"{len(entries(one, 'securityRules'))} network rules, everything else denied"
        for one in of(resources, "network:NetworkSecurityGroup")
        if one.id.lower() == group
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
        resource_ids.name(one) for one in entries(compute, "identity.userAssignedIdentities")
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
    used = {str(one.get("id")).lower() for one in entries(gateway, "publicIpAddresses")}
    names = [
        f"public address {_text(one, 'publicIpAddressName')}"
        for one in of(resources, "network:PublicIPAddress")
        if one.id.lower() in used
    ]
    return Card(
        token(gateway), f"NAT gateway {_text(gateway, 'natGatewayName')}", ("out only", *names)
    )


def _services(resources: Sequence[Resource]) -> tuple[Service, ...]:
    leading: dict[str, list[Card]] = {}
    spelled: dict[str, str] = {}
    for endpoint in of(resources, ENDPOINT):
        for connection in entries(endpoint, "privateLinkServiceConnections"):
            target = str(connection.get("privateLinkServiceId", ""))
            groups = ", ".join(connection.get("groupIds") or ())
            card = Card(ENDPOINT, _text(endpoint, "privateEndpointName"), (groups,))
            spelled[target.lower()] = target
            leading.setdefault(target.lower(), []).append(card)
    found = []
    for kind in SERVICES:
        for service in of(resources, kind):
            endpoints = tuple(leading.pop(service.id.lower(), ()))
            found.append(Service(_service(service, resources), endpoints, _outside(service)))
    for target, others in leading.items():
        found.append(
            Service(Card("", resource_ids.name(spelled[target]), ("existing",)), tuple(others), ())
        )
    return tuple(found)


def _service(service: Resource, resources: Sequence[Resource]) -> Card:
    kind = token(service)
    if kind == WORKSPACE:
        facts = ["high business impact"] if value(service, "hbiWorkspace") else []
        if value(service, "systemDatastoresAuthMode") == "Identity":
            facts.append("no keys")
        return Card(kind, f"Workspace {_text(service, 'workspaceName')}", tuple(facts))
    if kind == REGISTRY:
        facts = [_text(service, "sku.name")]
        if value(service, "adminUserEnabled") is False:
            facts.append("no admin user")
        return Card(kind, f"Container registry {_text(service, 'registryName')}", tuple(facts))
    if kind == VAULT:
        roles = value(service, "properties.enableRbacAuthorization")
        purge = value(service, "properties.enablePurgeProtection")
        facts = (["roles only"] if roles else []) + (["purge protection"] if purge else [])
        return Card(kind, f"Key vault {_text(service, 'vaultName')}", tuple(facts))
    if kind == STORAGE:
        name = _text(service, "accountName")
        containers = [
            _text(one, "containerName")
            for one in of(resources, CONTAINER)
            if value(one, "accountName") == name
        ]
        facts = [_text(service, "sku.name").replace("_", " ")]
        if value(service, "allowSharedKeyAccess") is False:
            facts.append("no keys")
        if containers:
            facts.append("containers " + ", ".join(sorted(containers)))
        return Card(kind, f"Storage {name}", tuple(facts))
    return Card(kind, f"Azure Monitor {_text(service, 'scopeName')}", ("private link scope",))


def _outside(service: Resource) -> tuple[str, ...]:
    """Who reaches a service from outside the network."""
    access = value(service, "publicNetworkAccess")
    if not isinstance(access, str) or access.lower() != "enabled":
        return ()
    rules = entries(service, "networkRuleSet.ipRules")
    return tuple(str(rule.get("iPAddressOrRange")) for rule in rules) or ("Entra sign-in",)


def _operations(resources: Sequence[Resource]) -> tuple[Card, ...]:
    found = []
    for logs in of(resources, LOGS):
        days, cap = _text(logs, "retentionInDays"), _text(logs, "workspaceCapping.dailyQuotaGb")
        facts = (
            _text(logs, "workspaceName"),
            f"{_whole(days)} days, {_whole(cap)} GB a day at most",
        )
        found.append(Card(LOGS, "Log Analytics", facts))
    found += [
        Card(INSIGHTS, "Application Insights", (_text(one, "resourceName"),))
        for one in of(resources, INSIGHTS)
    ]
    settings = of(resources, "monitor:DiagnosticSetting")
    if settings:
        kind = token(settings[0])
        found.append(Card(kind, "Diagnostic settings", (f"of {len(settings)} resources",)))
    alerts = of(resources, "monitor:ScheduledQueryRule")
    if alerts:
        names = ", ".join(sorted(one.name.removeprefix("alert-") for one in alerts))
        found.append(Card(token(alerts[0]), "Alerts", (names,)))
    for budget in of(resources, "consumption:Budget"):
        amount = f"{_whole(_text(budget, 'amount'))} a month"
        told = {
            str(one.get("thresholdType")).lower()
            for one in (value(budget, "notifications") or {}).values()
        }
        found.append(Card(token(budget), "Budget", (amount, "tells: " + ", ".join(sorted(told)))))
    return tuple(found)


def _scopes(resources: Sequence[Resource]) -> list[tuple[str, str]]:
    """Titles and identifiers of what roles are given on, in the order of the services. Roles
    on endpoints, by which the studio finds an account, are left out.
    """
    spelled = {
        _text(one, "scope").lower(): _text(one, "scope") for one in of(resources, ASSIGNMENT)
    }
    known = {one.id.lower(): one for one in resources if one.id}
    endpoints = {one.id.lower() for one in of(resources, ENDPOINT)}
    order = {kind: place for place, kind in enumerate((*SERVICES, INSIGHTS, GROUP))}

    def place(scope: str) -> tuple[int, str]:
        return (order.get(token(known[scope]), len(order)) if scope in known else -1, scope)

    found = sorted({scope for scope in spelled if scope not in endpoints}, key=place)
    return [(resource_ids.name(spelled[scope]), scope) for scope in found]


def _grants(
    resources: Sequence[Resource], columns: Sequence[tuple[str, str]]
) -> tuple[Grants, ...]:
    identities = {one.key: _text(one, "resourceName") for one in of(resources, IDENTITY)}
    given: dict[str, dict[str, set[str]]] = {}
    for assignment in of(resources, ASSIGNMENT):
        needed = assignment.options.get("dependsOn", ())
        who = next((identities[key] for key in needed if key in identities), None)
        if who is None:
            who = f"{assignment.name.partition('-')[0]} (group)"
        role = resource_ids.name(_text(assignment, "roleDefinitionId"))
        held = given.setdefault(who, {}).setdefault(_text(assignment, "scope").lower(), set())
        held.add(roles.NAMES.get(role, role))
    return tuple(
        Grants(who, tuple(tuple(sorted(held.get(scope, ()))) for _, scope in columns))
        for who, held in sorted(given.items())
    )


def _text(resource: Resource, path: str) -> str:
    """The input at a dotted path; empty where there is none."""
    found = value(resource, path)
    return "" if found is None else str(found)


def _reference(part: Mapping[str, object], key: str) -> str:
    """The identifier that a part of a resource refers to; empty where it refers to none."""
    found = part.get(key)
    return str(found.get("id", "")) if isinstance(found, Mapping) else ""
