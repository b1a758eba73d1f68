"""Security rules of the jump machine's subnet and of the subnet of its Bastion."""

from typing import Final

from infra.catalog.network_rules import (
    ANYWHERE,
    HTTPS,
    Direction,
    Egress,
    Protocol,
    Rule,
    Surroundings,
    allow,
    among,
    inbound,
    numbered,
    private,
)

REMOTE_ACCESS: Final = ("22", "3389")
SSH: Final = ("22",)
BASTION_DATA: Final = ("8080", "5701")
"""Ports between the parts of a Bastion."""


def jump(
    around: Surroundings, access: tuple[str, ...], bastion: tuple[str, ...] = ()
) -> tuple[Rule, ...]:
    """Return the rules of the jump subnet: outbound to the services, and to Azure over HTTPS.

    Args:
        around: the subnet and the private addresses that it may reach.
        access: ranges that may open SSH and RDP to it.
        bastion: range of the stack's own Bastion, which may open SSH to it.
    """
    into = [among("Inbound", around)]
    if bastion:
        into.append(inbound("bastion", bastion, around.own, SSH, "SSH through Bastion."))
    if access:
        why = "SSH and RDP, for example from Bastion in a peered network."
        into.append(inbound("remote-access", access, around.own, REMOTE_ACCESS, why))
    azure = [
        Egress("AzureActiveDirectory", "Tcp", ("80", "443"), "Sign-in."),
        Egress("AzureResourceManager", "Tcp", HTTPS, "Workspace, jobs, deployments."),
        Egress("AzureFrontDoor.FrontEnd", "Tcp", HTTPS, "Azure Machine Learning studio."),
        Egress("Internet", "Tcp", ("80", "443"), "Packages and the source's repository."),
    ]
    return numbered(
        into,
        [
            among("Outbound", around),
            *private(around, HTTPS),
            *(allow(egress, around) for egress in azure),
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
    return numbered(
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
