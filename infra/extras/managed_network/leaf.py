"""The managed network as a leaf: its profile and settings, and the checks of these."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from common.annotations import Pattern
from infra.leaf import Check, Leaf, Nodes
from infra.setting_types import Guid
from infra.settings import Settings

PROFILE: Final = "managed"
RULE_PATH: Final = (
    "Microsoft.MachineLearningServices/workspaces/{workspaceName}/outboundRules/{ruleName}"
)
DATA_RULE: Final = "data-blob"
STORAGE_HOSTS: Final = re.compile(r"(^|\.)(core\.windows\.net|storage\.azure\.net)$")
"""Hosts of storage accounts, which no rule with a name may allow (Azure Machine Learning, "Managed
virtual network isolation")."""

Host = Annotated[
    str,
    Pattern(r"(\*\.)?([a-z0-9-]+\.)+[a-z]{2,}", "a host's name, such as pypi.org or *.docker.io"),
]


@dataclass(frozen=True)
class ManagedNetworkSettings:
    """The network that Azure Machine Learning manages for nodes, with the profile `managed`."""

    accept_one_way: bool = False
    """Confirms that the network cannot be taken back: Azure never disables it again, nor lets its
    nodes reach the internet later. To go back, deploy another stack."""

    firewall: Literal["none", "Basic", "Standard"] = "none"
    """Azure Firewall that lets nodes reach `hosts`; Azure bills it all the time, and `make costs`
    prints its price. none: nodes reach Azure's services only, so images are pushed."""

    hosts: tuple[Host, ...] = ()
    """Names that nodes may reach over HTTP and HTTPS, such as those of package indexes."""

    image_publishers: Guid | None = None
    """Entra group that may push images of jobs to the registry."""


def rule_name(host: str) -> str:
    """Return the name of the rule that allows a host."""
    return "host-" + host.replace("*", "any").replace(".", "-")


def is_managed(settings: Settings) -> bool:
    """Whether nodes run in the managed network."""
    return settings.profile == PROFILE


def has_firewall(settings: Settings) -> bool:
    """Whether nodes reach hosts through a firewall."""
    return is_managed(settings) and settings.of(ManagedNetworkSettings).firewall != "none"


def _nodes(settings: Settings) -> Nodes:
    return Nodes("infra.extras.managed_network.component:nodes", builds=has_firewall(settings))


def _confirmed(settings: Settings) -> Iterator[str]:
    own = settings.of(ManagedNetworkSettings)
    if not is_managed(settings):
        if own != ManagedNetworkSettings():
            yield f"managed_network: has no effect; set profile to {PROFILE}, or remove it"
        return
    if not own.accept_one_way:
        yield (
            "managed_network.accept_one_way: is false, but Azure can never take a managed network "
            "back from a workspace; set it to true, or choose another profile"
        )
    if settings.serving:
        yield (
            f"serving: cannot be combined with profile {PROFILE}, because `jobs deploy` closes the "
            "way out of each deployment by itself, which this network does for all; serve from a "
            "stack with another profile"
        )
    if settings.network.existing is not None:
        yield (
            f"network.existing: cannot be combined with profile {PROFILE}, whose nodes are in no "
            "subnet of yours; let the stack declare a network for people, and name yours in "
            "network.peer_with"
        )


def _hosts(settings: Settings) -> Iterator[str]:
    own = settings.of(ManagedNetworkSettings)
    if own.firewall == "none" and own.hosts:
        yield (
            "managed_network.hosts: cannot be reached without a firewall; set "
            "managed_network.firewall to Basic or Standard (`make costs` prints its price)"
        )
    if own.firewall != "none" and not own.hosts:
        yield "managed_network.hosts: is empty, so managed_network.firewall would cost for nothing"
    for i, host in enumerate(own.hosts):
        if STORAGE_HOSTS.search(host):
            yield (
                f"managed_network.hosts[{i}]: {host} is a storage account, which only a private "
                "endpoint may reach; name the account in the stack's settings"
            )
    if len({rule_name(host) for host in own.hosts}) != len(own.hosts):
        yield "managed_network.hosts: names a host twice"


LEAF: Final = Leaf(
    groups={"managed_network": ManagedNetworkSettings},
    checks=(
        Check(("managed_network", "profile", "network", "serving"), _confirmed),
        Check(("managed_network",), _hosts),
    ),
    nodes={PROFILE: _nodes},
    declare="infra.extras.managed_network.component:declare",
    facts="infra.extras.managed_network.security:FACTS",
    types={"machinelearningservices:ManagedNetworkSettingsRule": RULE_PATH},
)
