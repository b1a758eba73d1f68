"""Network security rules as data: which traffic may enter and leave each subnet, and why.

Source: Azure Machine Learning, "Configure inbound and outbound network traffic" (19 March 2026) and
"Secure a training environment with virtual networks". All other traffic is denied.

No rule names the service tag `VirtualNetwork`: it includes every peered network, the networks
behind their gateways, and the prefixes of user-defined routes, so with a default route to a
firewall it can mean every address (Azure, "Virtual network service tags"), but where Azure demands
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Direction = Literal["Inbound", "Outbound"]
Access = Literal["Allow", "Deny"]
Protocol = Literal["Tcp", "Udp", "*"]
VaultTag = Literal["AzureKeyVault", "Keyvault"]

FIRST_PRIORITY: Final = 100
PRIORITY_STEP: Final = 10
DENY_PRIORITY: Final = 4096
"""Highest priority number that a rule may have; Azure's own default rules come after it."""
ANYWHERE: Final = "*"


@dataclass(frozen=True)
class Rule:
    """One rule of a network security group."""

    name: str
    priority: int
    direction: Direction
    access: Access
    protocol: Protocol
    sources: tuple[str, ...]
    """Address ranges, or one service tag or `*`."""
    destinations: tuple[str, ...]
    """Address ranges, or one service tag or `*`."""
    ports: tuple[str, ...]
    """Destination ports: a number, a range such as `8000-8010`, or `*`."""
    why: str
    """Reason for the rule, at most 140 characters, in the table of `infra.render.egress`."""


@dataclass(frozen=True)
class Surroundings:
    """A subnet of machines, and the private addresses that it may reach."""

    own: str
    """Range of the subnet itself."""
    endpoints: tuple[str, ...]
    """Ranges of the private endpoints."""
    dns_servers: tuple[str, ...] = ()
    """Addresses of the network's DNS servers; security rules do not apply to Azure's own."""


@dataclass(frozen=True)
class ServiceTraffic:
    """Traffic with Azure's services on which Azure's documents disagree; only a live subscription
    can show what is needed, so both are settings.
    """

    vault_tag: VaultTag = "AzureKeyVault"
    """Spelling of the key vault's service tag."""
    storage_files: bool = False
    """Whether the region's storage accounts are reached on port 445 too."""


@dataclass(frozen=True)
class Egress:
    """Outbound traffic to a service tag."""

    tag: str
    protocol: Protocol
    ports: tuple[str, ...]
    why: str


HTTPS: Final = ("443",)
HTTPS_AND_FILES: Final = ("443", "445")


def training(region: str, around: Surroundings, service: ServiceTraffic) -> tuple[Rule, ...]:
    """Return the rules of the subnet for training and data preparation: no internet access.

    Args:
        region: short name, such as `westeurope`; regional tags end in it.
        around: the subnet and the private addresses that it may reach.
        service: the stack's decisions on the traffic with Azure's services.
    """
    return numbered(
        [among("Inbound", around)],
        [
            among("Outbound", around),
            *private(around, HTTPS_AND_FILES),
            *_service_egress(region, around, service),
        ],
    )


def build(region: str, around: Surroundings, service: ServiceTraffic) -> tuple[Rule, ...]:
    """Return the rules of the subnet for image builds: those of training, and access to package
    indexes.
    """
    internet = Egress(
        "Internet",
        "Tcp",
        ("80", "443"),
        "Base images and packages; apt's indexes are served over HTTP and signed.",
    )
    return numbered(
        [among("Inbound", around)],
        [
            among("Outbound", around),
            *private(around, HTTPS_AND_FILES),
            *_service_egress(region, around, service),
            allow(internet, around),
        ],
    )


def endpoints(own: str, nodes: tuple[str, ...], others: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules of the private endpoints' subnet.

    Args:
        own: range of the subnet itself.
        nodes: ranges of the subnets whose machines also mount the workspace's file share; empty if
            nodes run elsewhere.
        others: further ranges that reach the services, such as those of peered networks.
    """
    rules = []
    if nodes:
        why = "Nodes reach the services and file share."
        rules.append(inbound("nodes", nodes, own, HTTPS_AND_FILES, why))
    if others:
        why = "Machines to work from and peered networks reach the services."
        rules.append(inbound("others", others, own, HTTPS, why))
    return numbered(rules, [])


def _service_egress(region: str, around: Surroundings, service: ServiceTraffic) -> list[Rule]:
    files = HTTPS_AND_FILES if service.storage_files else HTTPS
    egress = [
        Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in of identities."),
        Egress("AzureMachineLearning", "Tcp", ("443", "8787", "18881"), "The service itself."),
        Egress("AzureMachineLearning", "Udp", ("5831",), "The service itself."),
        Egress(f"BatchNodeManagement.{region}", "*", HTTPS, "The service that runs the nodes."),
        Egress("AzureResourceManager", "Tcp", HTTPS, "Workspace and computes."),
        Egress(f"Storage.{region}", "Tcp", files, "Azure Batch's own account in the region."),
        Egress("MicrosoftContainerRegistry", "Tcp", HTTPS, "Microsoft's base images."),
        Egress("AzureFrontDoor.FirstParty", "Tcp", HTTPS, "Layers of Microsoft's base images."),
        Egress("AzureMonitor", "Tcp", HTTPS, "Metrics and logs."),
        Egress(
            f"{service.vault_tag}.{region}",
            "Tcp",
            HTTPS,
            "Key vault of the Azure Batch behind a high-business-impact workspace.",
        ),
    ]
    return [allow(egress, around) for egress in egress]


def allow(egress: Egress, around: Surroundings) -> Rule:
    """Return the rule that lets a subnet reach a service tag."""
    protocol = "" if egress.protocol in ("Tcp", "*") else f"-{egress.protocol.lower()}"
    name = f"{egress.tag.lower().replace('.', '-')}{protocol}"
    return outbound(name, around, (egress.tag,), egress.ports, egress.why, egress.protocol)


def private(around: Surroundings, ports: tuple[str, ...]) -> list[Rule]:
    """Return the rules for the destinations of a subnet inside the network and its peers."""
    rules = [outbound("endpoints", around, around.endpoints, ports, "Private endpoints.")]
    if around.dns_servers:
        why = "The network's DNS servers."
        rules.append(outbound("dns", around, around.dns_servers, ("53",), why, "*"))
    return rules


def among(direction: Direction, around: Surroundings) -> Rule:
    """Return the rule for traffic between the machines of one subnet."""
    return Rule(
        f"allow-own-subnet-{direction.lower()}",
        0,
        direction,
        "Allow",
        "*",
        (around.own,),
        (around.own,),
        ("*",),
        "The machines of the subnet reach each other; ranks do so on arbitrary ports (MPI, NCCL, "
        "Gloo).",
    )


def inbound(
    name: str, sources: tuple[str, ...], own: str, ports: tuple[str, ...], why: str
) -> Rule:
    """Return a rule that lets ranges reach a subnet over TCP."""
    return Rule(f"allow-{name}", 0, "Inbound", "Allow", "Tcp", sources, (own,), ports, why)


def outbound(
    name: str,
    around: Surroundings,
    destinations: tuple[str, ...],
    ports: tuple[str, ...],
    why: str,
    protocol: Protocol = "Tcp",
) -> Rule:
    own = (around.own,)
    return Rule(f"allow-{name}", 0, "Outbound", "Allow", protocol, own, destinations, ports, why)


def _deny(direction: Direction) -> Rule:
    return Rule(
        f"deny-all-{direction.lower()}",
        DENY_PRIORITY,
        direction,
        "Deny",
        "*",
        (ANYWHERE,),
        (ANYWHERE,),
        ("*",),
        "Nothing that is not named above.",
    )


def numbered(into: Sequence[Rule], out: Sequence[Rule]) -> tuple[Rule, ...]:
    """Number the rules in the given order, and deny all other traffic at the end."""
    allowed = [
        replace(rule, priority=FIRST_PRIORITY + PRIORITY_STEP * i)
        for rules in (into, out)
        for i, rule in enumerate(rules)
    ]
    return (*allowed, _deny("Inbound"), _deny("Outbound"))
