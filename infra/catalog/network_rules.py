"""Network security rules as data: which traffic may enter and leave each subnet, and why.

Source: Azure Machine Learning, "Configure inbound and outbound network traffic" (19 March 2026) and
"Secure a training environment with virtual networks". All other traffic is denied.

No rule names the service tag `VirtualNetwork`: it includes every peered network, what is behind
their gateways, and the prefixes of user-defined routes, so with a default route to a firewall it
can mean every address (Azure, "Virtual network service tags"). Only the subnet of a Bastion has it,
where Azure demands it.
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
    """Reason for the rule, at most 140 characters, as Azure allows in a rule's description."""


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
class _Egress:
    tag: str
    protocol: Protocol
    ports: tuple[str, ...]
    why: str


HTTPS: Final = ("443",)
HTTPS_AND_FILES: Final = ("443", "445")
REMOTE_ACCESS: Final = ("22", "3389")
SSH: Final = ("22",)
BASTION_DATA: Final = ("8080", "5701")
"""Ports between the parts of a Bastion."""


def training(region: str, around: Surroundings, vault_tag: VaultTag) -> tuple[Rule, ...]:
    """Return the rules of the subnet for training and data preparation: no internet access.

    Args:
        region: short name, such as `westeurope`; regional tags end in it.
        around: the subnet and the private addresses that it may reach.
        vault_tag: spelling of the key vault's service tag. Azure's documents disagree, and only a
            live subscription can show which one works, so it is a setting.
    """
    return _numbered(
        [_among("Inbound", around)],
        [
            _among("Outbound", around),
            *_private(around, HTTPS_AND_FILES),
            *_service_egress(region, around, vault_tag),
        ],
    )


def build(region: str, around: Surroundings, vault_tag: VaultTag) -> tuple[Rule, ...]:
    """Return the rules of the subnet for image builds: those of training, and access to package
    indexes.
    """
    internet = _Egress(
        "Internet",
        "Tcp",
        ("80", "443"),
        "Base images and packages; apt's indexes are served over HTTP and signed.",
    )
    return _numbered(
        [_among("Inbound", around)],
        [
            _among("Outbound", around),
            *_private(around, HTTPS_AND_FILES),
            *_service_egress(region, around, vault_tag),
            _allow(internet, around),
        ],
    )


def endpoints(own: str, nodes: tuple[str, ...], others: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules of the private endpoints' subnet.

    Args:
        own: range of the subnet itself.
        nodes: ranges of the subnets whose machines also mount the workspace's file share.
        others: further ranges that reach the services, such as those of peered networks.
    """
    inbound = [
        _inbound("nodes", nodes, own, HTTPS_AND_FILES, "Nodes reach the services and file share.")
    ]
    if others:
        why = "Jump machines and peered networks reach the services."
        inbound.append(_inbound("others", others, own, HTTPS, why))
    return _numbered(inbound, [])


def jump(
    around: Surroundings, access: tuple[str, ...], bastion: tuple[str, ...] = ()
) -> tuple[Rule, ...]:
    """Return the rules of the jump subnet: outbound to the services, and to Azure over HTTPS.

    Args:
        around: the subnet and the private addresses that it may reach.
        access: ranges that may open SSH and RDP to it.
        bastion: range of the stack's own Bastion, which may open SSH to it.
    """
    inbound = [_among("Inbound", around)]
    if bastion:
        inbound.append(_inbound("bastion", bastion, around.own, SSH, "SSH through Bastion."))
    if access:
        why = "SSH and RDP, for example from Bastion in a peered network."
        inbound.append(_inbound("remote-access", access, around.own, REMOTE_ACCESS, why))
    azure = [
        _Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in."),
        _Egress("AzureResourceManager", "Tcp", HTTPS, "Workspace, jobs, deployments."),
        _Egress("AzureFrontDoor.FrontEnd", "Tcp", HTTPS, "Azure Machine Learning studio."),
        _Egress("Internet", "Tcp", ("80", "443"), "Packages and the source's repository."),
    ]
    return _numbered(
        inbound,
        [
            _among("Outbound", around),
            *_private(around, HTTPS),
            *(_allow(egress, around) for egress in azure),
        ],
    )


def bastion(allowed: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules of the subnet of a Bastion: exactly those that Azure demands (Azure Bastion,
    "Configure NSG rules for Azure Bastion", 24 February 2026). Azure refuses the subnet without
    them, so they keep its service tags.

    Args:
        allowed: public ranges that may reach it; empty means the internet.
    """
    network = ("VirtualNetwork",)

    def rule(
        name: str,
        direction: Direction,
        protocol: Protocol,
        sources: tuple[str, ...],
        destinations: tuple[str, ...],
        ports: tuple[str, ...],
        why: str,
    ) -> Rule:
        return Rule(
            f"allow-{name}", 0, direction, "Allow", protocol, sources, destinations, ports, why
        )

    anywhere = (ANYWHERE,)
    return _numbered(
        [
            rule(
                "https", "Inbound", "Tcp", allowed or ("Internet",), anywhere, HTTPS,
                "People's computers, with an Entra sign-in.",
            ),
            rule(
                "gateway-manager", "Inbound", "Tcp", ("GatewayManager",), anywhere, HTTPS,
                "Bastion's control plane.",
            ),
            rule(
                "load-balancer", "Inbound", "Tcp", ("AzureLoadBalancer",), anywhere, HTTPS,
                "Health probes.",
            ),
            rule(
                "parts-inbound", "Inbound", "*", network, network, BASTION_DATA,
                "Parts of Bastion among each other.",
            ),
        ],
        [
            rule(
                "machines", "Outbound", "*", anywhere, network, REMOTE_ACCESS,
                "SSH; the machines' own rules decide which of them accept it.",
            ),
            rule(
                "azure", "Outbound", "Tcp", anywhere, ("AzureCloud",), HTTPS,
                "Logs and metering.",
            ),
            rule(
                "parts-outbound", "Outbound", "*", network, network, BASTION_DATA,
                "Parts of Bastion among each other.",
            ),
            rule(
                "certificates", "Outbound", "*", anywhere, ("Internet",), ("80",),
                "Validation of certificates and sessions.",
            ),
        ],
    )  # fmt: skip


def _service_egress(region: str, around: Surroundings, vault_tag: VaultTag) -> list[Rule]:
    egress = [
        _Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in of identities."),
        _Egress("AzureMachineLearning", "Tcp", ("443", "8787", "18881"), "The service itself."),
        _Egress("AzureMachineLearning", "Udp", ("5831",), "The service itself."),
        _Egress(f"BatchNodeManagement.{region}", "*", HTTPS, "The service that runs the nodes."),
        _Egress("AzureResourceManager", "Tcp", HTTPS, "Workspace and computes."),
        _Egress(f"Storage.{region}", "Tcp", HTTPS, "Azure Batch's own account in the region."),
        _Egress("MicrosoftContainerRegistry", "Tcp", HTTPS, "Microsoft's base images."),
        _Egress("AzureFrontDoor.FirstParty", "Tcp", HTTPS, "Layers of Microsoft's base images."),
        _Egress("AzureMonitor", "Tcp", HTTPS, "Metrics and logs."),
        _Egress(
            f"{vault_tag}.{region}",
            "Tcp",
            HTTPS,
            "Key vault of the Azure Batch behind a high-business-impact workspace.",
        ),
    ]
    return [_allow(egress, around) for egress in egress]


def _allow(egress: _Egress, around: Surroundings) -> Rule:
    protocol = "" if egress.protocol in ("Tcp", "*") else f"-{egress.protocol.lower()}"
    name = f"{egress.tag.lower().replace('.', '-')}{protocol}"
    return _outbound(name, around, (egress.tag,), egress.ports, egress.why, egress.protocol)


def _private(around: Surroundings, ports: tuple[str, ...]) -> list[Rule]:
    """Return the rules for what a subnet reaches inside the network and its peers."""
    rules = [_outbound("endpoints", around, around.endpoints, ports, "Private endpoints.")]
    if around.dns_servers:
        why = "The network's DNS servers."
        rules.append(_outbound("dns", around, around.dns_servers, ("53",), why, "*"))
    return rules


def _among(direction: Direction, around: Surroundings) -> Rule:
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
        "Ranks find each other on arbitrary ports (MPI, NCCL, Gloo).",
    )


def _inbound(
    name: str, sources: tuple[str, ...], own: str, ports: tuple[str, ...], why: str
) -> Rule:
    return Rule(f"allow-{name}", 0, "Inbound", "Allow", "Tcp", sources, (own,), ports, why)


def _outbound(
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


def _numbered(inbound: Sequence[Rule], outbound: Sequence[Rule]) -> tuple[Rule, ...]:
    """Number the rules in the given order, and deny all other traffic at the end."""
    allowed = [
        replace(rule, priority=FIRST_PRIORITY + PRIORITY_STEP * i)
        for rules in (inbound, outbound)
        for i, rule in enumerate(rules)
    ]
    return (*allowed, _deny("Inbound"), _deny("Outbound"))
