"""Network security rules as data: which traffic may enter and leave each subnet, and why.

Source: Azure Machine Learning, "Configure inbound and outbound network traffic" (19 March 2026) and
"Secure a training environment with virtual networks". All other traffic is denied.
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
NETWORK: Final = "VirtualNetwork"
ANYWHERE: Final = "*"


@dataclass(frozen=True)
class Rule:
    """One rule of a network security group."""

    name: str
    priority: int
    direction: Direction
    access: Access
    protocol: Protocol
    source: str
    """Service tag, address range or `*`."""
    destination: str
    """Service tag, address range or `*`."""
    ports: tuple[str, ...]
    """Destination ports: a number, a range such as `8000-8010`, or `*`."""
    why: str
    """Reason for the rule, at most 140 characters: Azure shows it as the rule's description."""


@dataclass(frozen=True)
class _Egress:
    tag: str
    protocol: Protocol
    ports: tuple[str, ...]
    why: str


def training(region: str, *, hbi: bool, public_ip: bool, vault_tag: VaultTag) -> tuple[Rule, ...]:
    """Return the rules of the subnet for training and data preparation: no internet access.

    Args:
        region: short name, such as `westeurope`; regional tags end in it.
        hbi: whether the workspace is a high-business-impact one, whose nodes read credentials from
            the key vault of Azure Batch.
        public_ip: whether nodes have public addresses; the service then connects to them from
            outside.
        vault_tag: spelling of the key vault's service tag. Azure's documents disagree, and only a
            live subscription can show which one works, so it is a setting.
    """
    inbound = [_inside("Inbound")]
    if public_ip:
        inbound.append(
            Rule(
                "allow-machine-learning",
                0,
                "Inbound",
                "Allow",
                "Tcp",
                "AzureMachineLearning",
                NETWORK,
                ("44224",),
                "The service reaches nodes that have a public address.",
            )
        )
    return _numbered(inbound, [_inside("Outbound"), *_service_egress(region, hbi, vault_tag)])


def build(region: str, *, hbi: bool, vault_tag: VaultTag) -> tuple[Rule, ...]:
    """Return the rules of the subnet for image builds: those of training, and HTTPS to package
    indexes.
    """
    internet = _allow(
        _Egress(
            "Internet",
            "Tcp",
            ("80", "443"),
            "Base images and packages; apt's indexes are served over HTTP and signed.",
        )
    )
    return _numbered(
        [_inside("Inbound")],
        [_inside("Outbound"), *_service_egress(region, hbi, vault_tag), internet],
    )


def endpoints() -> tuple[Rule, ...]:
    """Return the rules of the private endpoints' subnet: HTTPS from the network and its peers."""
    inbound = Rule(
        "allow-https-inside",
        0,
        "Inbound",
        "Allow",
        "Tcp",
        NETWORK,
        NETWORK,
        ("443", "445"),
        "Nodes and peered networks reach the services; 445 mounts the workspace's file share.",
    )
    return _numbered([inbound], [])


def jump() -> tuple[Rule, ...]:
    """Return the rules of the jump subnet: outbound to the network, and to Azure over HTTPS."""
    azure = [
        _allow(_Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in.")),
        _allow(_Egress("AzureResourceManager", "Tcp", ("443",), "Workspace, jobs, deployments.")),
        _allow(
            _Egress("AzureFrontDoor.FrontEnd", "Tcp", ("443",), "Azure Machine Learning studio.")
        ),
        _allow(_Egress("Internet", "Tcp", ("80", "443"), "Packages and the source's repository.")),
    ]
    return _numbered([_inside("Inbound")], [_inside("Outbound"), *azure])


def _service_egress(region: str, hbi: bool, vault_tag: VaultTag) -> list[Rule]:  # noqa: FBT001
    egress = [
        _Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in of identities."),
        _Egress("AzureMachineLearning", "Tcp", ("443", "8787", "18881"), "The service itself."),
        _Egress("AzureMachineLearning", "Udp", ("5831",), "The service itself."),
        _Egress(f"BatchNodeManagement.{region}", "*", ("443",), "The service that runs the nodes."),
        _Egress("AzureResourceManager", "Tcp", ("443",), "Workspace and computes."),
        _Egress(f"Storage.{region}", "Tcp", ("443",), "Azure Batch's own account in the region."),
        _Egress("MicrosoftContainerRegistry", "Tcp", ("443",), "Microsoft's base images."),
        _Egress("AzureFrontDoor.FirstParty", "Tcp", ("443",), "Layers of Microsoft's base images."),
        _Egress("AzureMonitor", "Tcp", ("443",), "Metrics and logs."),
    ]
    if hbi:
        egress.append(
            _Egress(
                f"{vault_tag}.{region}",
                "Tcp",
                ("443",),
                "Key vault of the Azure Batch behind a high-business-impact workspace.",
            )
        )
    return [_allow(egress) for egress in egress]


def _allow(egress: _Egress) -> Rule:
    protocol = "" if egress.protocol in ("Tcp", "*") else f"-{egress.protocol.lower()}"
    name = f"allow-{egress.tag.lower().replace('.', '-')}{protocol}"
    return Rule(
        name,
        0,
        "Outbound",
        "Allow",
        egress.protocol,
        NETWORK,
        egress.tag,
        egress.ports,
        egress.why,
    )


def _inside(direction: Direction) -> Rule:
    return Rule(
        f"allow-inside-{direction.lower()}",
        0,
        direction,
        "Allow",
        "*",
        NETWORK,
        NETWORK,
        ("*",),
        "Ranks find each other on arbitrary ports (MPI, NCCL, Gloo); private endpoints.",
    )


def _deny(direction: Direction) -> Rule:
    return Rule(
        f"deny-all-{direction.lower()}",
        DENY_PRIORITY,
        direction,
        "Deny",
        "*",
        ANYWHERE,
        ANYWHERE,
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
