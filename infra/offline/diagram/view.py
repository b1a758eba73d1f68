"""What the picture shows, read from declared resources. Pure; nothing here knows of drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.offline.diagram.grants import ENDPOINT, SERVICES, Grants, grants, scopes
from infra.offline.diagram.parts import last, text_at, value_of
from infra.policies.rule import (
    COMPUTE,
    CONTAINER,
    GROUP,
    INSIGHTS,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    entries,
    of,
    token,
    value,
)
from infra.resources import Resource


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
    title = " ".join(text_at(one, "resourceGroupName") for one in groups)
    regions = sorted({text_at(one, "location") for one in groups})
    networks = of(resources, NETWORK)
    zones = of(resources, "privatedns:PrivateZone")
    columns = scopes(resources)
    return View(
        title=" · ".join([title, *regions]),
        network=_network(networks[0]) if networks else _existing_network(resources),
        subnets=_subnets(resources),
        ways_out=tuple(_way_out(one, resources) for one in of(resources, "network:NatGateway")),
        services=_services(resources),
        zones=tuple(sorted(text_at(zone, "privateZoneName") for zone in zones)),
        columns=tuple(title for title, _ in columns),
        grants=grants(resources, columns),
        operations=_operations(resources),
    )


def _network(network: Resource) -> Card:
    space = ", ".join(entries(network, "addressSpace.addressPrefixes"))
    peers = [
        f"peered with {last(value_of(peering, 'remoteVirtualNetwork'))}"
        for peering in entries(network, "virtualNetworkPeerings")
    ]
    return Card(
        NETWORK, f"Virtual network {text_at(network, 'virtualNetworkName')}", (space, *peers)
    )


def _existing_network(resources: Sequence[Resource]) -> Card:
    """Someone else's network, known from the subnets that endpoints are in."""
    subnets = [text_at(one, "subnet.id") for one in of(resources, ENDPOINT)]
    names = sorted({last(subnet.partition("/subnets/")[0]) for subnet in subnets})
    return Card("", " ".join(["Existing virtual network", *names]))


def _subnets(resources: Sequence[Resource]) -> tuple[Subnet, ...]:
    declared = {
        f"{network.id}/subnets/{subnet['name']}".lower(): subnet
        for network in of(resources, NETWORK)
        for subnet in entries(network, "subnets")
    }
    clusters: dict[str, list[Card]] = {}
    for compute in of(resources, COMPUTE):
        where = text_at(compute, "properties.properties.subnet.id").lower()
        clusters.setdefault(where, []).append(_cluster(compute))
    endpoints = {text_at(one, "subnet.id").lower() for one in of(resources, ENDPOINT)}
    found = []
    for where in dict.fromkeys([*declared, *clusters, *sorted(endpoints)]):
        subnet = declared.get(where, {})
        lines = _subnet_lines(subnet, resources) if subnet else ("existing",)
        found.append(
            Subnet(
                name=str(subnet.get("name", last(where))),
                lines=lines,
                clusters=tuple(clusters.get(where, ())),
                has_endpoints=where in endpoints,
                leaves_by_nat=bool(value_of(subnet, "natGateway")),
            )
        )
    return tuple(found)


def _subnet_lines(subnet: Mapping[str, object], resources: Sequence[Resource]) -> tuple[str, ...]:
    group = value_of(subnet, "networkSecurityGroup").lower()
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
    least, most = (
        text_at(compute, f"{nodes}scaleSettings.{key}NodeCount") for key in ("min", "max")
    )
    identities = [last(one) for one in entries(compute, "identity.userAssignedIdentities")]
    return Card(
        COMPUTE,
        text_at(compute, "computeName"),
        (
            text_at(compute, nodes + "vmSize").removeprefix("Standard_"),
            priority.get(text_at(compute, nodes + "vmPriority"), ""),
            f"{_whole(least)} to {_whole(most)} nodes",
            *identities,
        ),
    )


def _whole(number: str) -> str:
    return number.removesuffix(".0")


def _way_out(gateway: Resource, resources: Sequence[Resource]) -> Card:
    used = {str(one.get("id")).lower() for one in entries(gateway, "publicIpAddresses")}
    names = [
        f"public address {text_at(one, 'publicIpAddressName')}"
        for one in of(resources, "network:PublicIPAddress")
        if one.id.lower() in used
    ]
    return Card(
        token(gateway), f"NAT gateway {text_at(gateway, 'natGatewayName')}", ("out only", *names)
    )


def _services(resources: Sequence[Resource]) -> tuple[Service, ...]:
    leading: dict[str, list[Card]] = {}
    spelled: dict[str, str] = {}
    for endpoint in of(resources, ENDPOINT):
        for connection in entries(endpoint, "privateLinkServiceConnections"):
            target = str(connection.get("privateLinkServiceId", ""))
            groups = ", ".join(connection.get("groupIds") or ())
            card = Card(ENDPOINT, text_at(endpoint, "privateEndpointName"), (groups,))
            spelled[target.lower()] = target
            leading.setdefault(target.lower(), []).append(card)
    found = []
    for kind in SERVICES:
        for service in of(resources, kind):
            endpoints = tuple(leading.pop(service.id.lower(), ()))
            found.append(Service(_service(service, resources), endpoints, _outside(service)))
    for target, others in leading.items():
        found.append(Service(Card("", last(spelled[target]), ("existing",)), tuple(others), ()))
    return tuple(found)


def _service(service: Resource, resources: Sequence[Resource]) -> Card:
    kind = token(service)
    if kind == WORKSPACE:
        facts = ["high business impact"] if value(service, "hbiWorkspace") else []
        if value(service, "systemDatastoresAuthMode") == "Identity":
            facts.append("no keys")
        return Card(kind, f"Workspace {text_at(service, 'workspaceName')}", tuple(facts))
    if kind == REGISTRY:
        facts = [text_at(service, "sku.name")]
        if value(service, "adminUserEnabled") is False:
            facts.append("no admin user")
        return Card(kind, f"Container registry {text_at(service, 'registryName')}", tuple(facts))
    if kind == VAULT:
        roles = value(service, "properties.enableRbacAuthorization")
        purge = value(service, "properties.enablePurgeProtection")
        facts = (["roles only"] if roles else []) + (["purge protection"] if purge else [])
        return Card(kind, f"Key vault {text_at(service, 'vaultName')}", tuple(facts))
    if kind == STORAGE:
        name = text_at(service, "accountName")
        containers = [
            text_at(one, "containerName")
            for one in of(resources, CONTAINER)
            if value(one, "accountName") == name
        ]
        facts = [text_at(service, "sku.name").replace("_", " ")]
        if value(service, "allowSharedKeyAccess") is False:
            facts.append("no keys")
        if containers:
            facts.append("containers " + ", ".join(sorted(containers)))
        return Card(kind, f"Storage {name}", tuple(facts))
    return Card(kind, f"Azure Monitor {text_at(service, 'scopeName')}", ("private link scope",))


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
        days, cap = text_at(logs, "retentionInDays"), text_at(logs, "workspaceCapping.dailyQuotaGb")
        facts = (
            text_at(logs, "workspaceName"),
            f"{_whole(days)} days, {_whole(cap)} GB a day at most",
        )
        found.append(Card(LOGS, "Log Analytics", facts))
    found += [
        Card(INSIGHTS, "Application Insights", (text_at(one, "resourceName"),))
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
        amount = f"{_whole(text_at(budget, 'amount'))} a month"
        told = {
            str(one.get("thresholdType")).lower()
            for one in (value(budget, "notifications") or {}).values()
        }
        found.append(Card(token(budget), "Budget", (amount, "tells: " + ", ".join(sorted(told)))))
    return tuple(found)
