"""The jump machine as a leaf: its settings and their checks, its names and its subnets."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Final, Literal

from common.annotations import Pattern
from infra.catalog.network_rules import Rule, Surroundings
from infra.checks.needs import NETWORK_VERSION, provider
from infra.extras.jump_machine import network_rules, time_zones
from infra.leaf import Check, Leaf, Needed, Subnet
from infra.naming import IN_NETWORK, Limit, Name
from infra.setting_types import Guid, id_of
from infra.settings import Settings
from infra.subnets import WIDEST_ALLOWED, address_range, private_range_problems

PublicKey = Annotated[
    str,
    Pattern(
        r"ssh-(rsa|ed25519) [A-Za-z0-9+/]{40,}={0,3}( \S+)?",
        "an SSH public key in one line, ssh-ed25519 AAAA... or ssh-rsa AAAA...",
    ),
]
RepositoryUrl = Annotated[
    str,
    Pattern(
        r"https://[A-Za-z0-9.-]+/[A-Za-z0-9._~/-]+",
        "an https:// address of a Git repository, without a name, a password or a query",
    ),
]
Revision = Annotated[
    str, Pattern(r"[A-Za-z0-9][A-Za-z0-9._/-]*", "a branch, a tag or a commit of the repository")
]
TimeOfDay = Annotated[str, Pattern(r"([01]\d|2[0-3])[0-5]\d", "a time of day, such as 1900")]
TimeZone = Annotated[
    str, Pattern(r"[A-Za-z0-9.()+ -]+", "a time zone by Windows' name, such as UTC")
]
BastionId = Annotated[str, id_of("Microsoft.Network/bastionHosts")]


@dataclass(frozen=True)
class SubnetSettings:
    """The subnet of the machine, which may be declared without it."""

    jump_subnet: bool = False
    """Declare a subnet for a machine to work from (a CI runner, a Bastion target), without the
    machine. `access.jump_machine` declares both."""

    jump_access: tuple[str, ...] = ()
    """Private address ranges that may open SSH and RDP to the jump subnet, such as that of a hub's
    Bastion."""


@dataclass(frozen=True)
class AccessSettings:
    """A machine inside the network to work from, which Bastion leads to."""

    jump_machine: bool = False
    """Declare the machine, its subnet, and a Bastion unless `existing_bastion` is given. It has no
    public address, and turns itself off at night; Bastion is billed by the hour, day and night."""

    users: Guid | None = None
    """Entra group whose members may sign in to the machine and start it. Required with the
    machine."""

    administrators: Guid | None = None
    """Entra group whose members may also become root on it."""

    public_key: PublicKey | None = None
    """SSH public key that Azure demands of a Linux machine without a password. Required with the
    machine, though no one signs in with it: cloud-init makes no account for it. Delete the private
    half."""

    repository: RepositoryUrl | None = None
    """Git repository, readable without signing in, that the machine clones to /opt/platform and
    sets up when it is created. None leaves it to its users. A change replaces the machine."""

    revision: Revision = "main"
    """Branch, tag or commit of `repository`."""

    size: Literal["Standard_D2as_v5", "Standard_D4as_v5", "Standard_D2s_v5", "Standard_D4s_v5"] = (
        "Standard_D2as_v5"
    )
    """Virtual machine size: those of series that support trusted launch (Azure Virtual Machines,
    "Trusted launch")."""

    off_at: TimeOfDay = "1900"
    """Time of day at which the machine is turned off, even if it is in use."""

    time_zone: TimeZone = "UTC"
    """Time zone of `off_at`, such as "W. Europe Standard Time"."""

    bastion_allowed_addresses: tuple[str, ...] = ()
    """Public IPv4 addresses or ranges that may open HTTPS to the declared Bastion; empty means the
    whole internet, where an Entra sign-in is all that is in the way."""

    existing_bastion: BastionId | None = None
    """Use this Bastion (Standard or Premium, with native client support) of a peered network
    instead of declaring one. `network.jump_access` lists its subnet's range, and its owner gives
    `users` and `administrators` Reader on it. They also need Reader on this stack's network, which
    the stack does not assign."""


MACHINE: Final = Name(
    "jump machine",
    lambda names: f"{names.base}-jump",
    Limit(r"[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]", 1, 64),
)
SCHEDULE: Final = Name(
    "shutdown schedule", lambda names: f"shutdown-computevm-{MACHINE(names)}", Limit(r".*", 1, 120)
)
"""Name of the machine's shutdown schedule, which Azure finds by this form only."""
BASTION: Final = Name("Bastion", lambda names: f"{names.base}-bastion", IN_NETWORK)
BASTION_ADDRESS: Final = Name(
    "Bastion's address", lambda names: f"{names.base}-bastion-ip", IN_NETWORK
)
BASTION_SUBNET: Final = "AzureBastionSubnet"
"""Name that Azure demands of the subnet of a Bastion (Azure Bastion, "Configuration settings")."""
MACHINE_ADDRESSES: Final = 11
BASTION_ADDRESSES: Final = 59
"""Azure refuses a Bastion in a subnet smaller than a /26 (Azure Bastion, "FAQ")."""


def has_bastion(settings: Settings) -> bool:
    """Whether the stack declares a Bastion of its own."""
    access = settings.of(AccessSettings)
    return access.jump_machine and access.existing_bastion is None


def _subnets(settings: Settings) -> tuple[Subnet, ...]:
    access, own = settings.of(AccessSettings), settings.of(SubnetSettings)

    def machine(around: Surroundings, ranges: Mapping[str, str]) -> tuple[Rule, ...]:
        bastion = (ranges["bastion"],) if "bastion" in ranges else ()
        return network_rules.jump(around, own.jump_access, bastion)

    def bastion(_around: Surroundings, _ranges: Mapping[str, str]) -> tuple[Rule, ...]:
        return network_rules.bastion(access.bastion_allowed_addresses)

    subnets = []
    if own.jump_subnet or access.jump_machine:
        subnets.append(Subnet("jump", MACHINE_ADDRESSES, machine))
    if has_bastion(settings):
        # Azure refuses a route table on the subnet of a Bastion, which has an address of its own.
        # It is last, although it is large: Azure cannot move the subnets of a deployed stack.
        subnets.append(
            Subnet(
                *("bastion", BASTION_ADDRESSES, bastion, BASTION_SUBNET),
                reaches_endpoints=False,
                leaves=False,
                last=True,
            )
        )
    return tuple(subnets)


def _machine(settings: Settings) -> Iterator[str]:
    """Check that the machine has people who may use it, and a network that the stack declares."""
    access = settings.of(AccessSettings)
    if not access.jump_machine:
        for field in fields(AccessSettings):
            if getattr(access, field.name) != getattr(AccessSettings(), field.name):
                yield f"access.{field.name}: has no effect; set access.jump_machine to true"
        return
    if settings.network.existing is not None:
        yield (
            "access.jump_machine: cannot be combined with network.existing, in which the stack "
            "declares no subnet; ask the network's owner for a machine there"
        )
    if access.users is None:
        yield "access.users: is missing; give the object id of the Entra group that may sign in"
    if access.public_key is None:
        yield (
            "access.public_key: is missing; Azure demands one. `ssh-keygen -q -t ed25519 -N '' -f "
            "unused` writes unused.pub: paste it, and delete the file unused"
        )
    if access.time_zone not in time_zones.NAMES:
        near = difflib.get_close_matches(access.time_zone, time_zones.NAMES, 1)
        advice = f"did you mean {near[0]!r}?" if near else "such as 'W. Europe Standard Time'"
        yield (
            f"access.time_zone: {access.time_zone!r} is not a time zone by Windows' name; {advice}"
        )
    if access.users is not None and access.users == access.administrators:
        yield (
            "access.administrators: is the same group as access.users, so everybody would be an "
            "administrator; give another group, or leave it out"
        )


def _way(settings: Settings) -> Iterator[str]:
    """Check the way to the machine: the stack's own Bastion, or one of a peered network."""
    access = settings.of(AccessSettings)
    for i, text in enumerate(access.bastion_allowed_addresses):
        range_ = address_range(text)
        at = f"access.bastion_allowed_addresses[{i}]"
        if range_ is None:
            yield f"{at}: {text!r} is not an IPv4 address or range, such as 203.0.113.0/24"
        elif not range_.is_global:
            yield f"{at}: {text} is not a public address; use the one that the internet sees"
        elif range_.prefixlen < WIDEST_ALLOWED:
            yield (
                f"{at}: {text} is a large part of the internet; use ranges of /{WIDEST_ALLOWED} or "
                "smaller, or leave the list empty"
            )
    if access.existing_bastion is None:
        return
    if access.bastion_allowed_addresses:
        yield (
            "access.bastion_allowed_addresses: cannot be combined with access.existing_bastion, "
            "which the stack does not change; ask its owner"
        )
    if access.jump_machine and not settings.of(SubnetSettings).jump_access:
        yield (
            "network.jump_access: is empty, so access.existing_bastion would not reach the "
            "machine; list the range of its AzureBastionSubnet"
        )
    if access.jump_machine and not settings.network.peer_with:
        yield (
            "network.peer_with: is empty, so access.existing_bastion would not reach the machine; "
            "peer with the network of the Bastion"
        )


def _subnet(settings: Settings) -> Iterator[str]:
    """Check the subnet, and who may reach it."""
    own, network = settings.of(SubnetSettings), settings.network
    if network.existing is not None:
        if own.jump_subnet:
            yield (
                "network.jump_subnet: cannot be combined with network.existing, which the stack "
                "does not change; ask the network's owner to add the subnet"
            )
    else:
        for i, other in enumerate(own.jump_access):
            yield from private_range_problems(f"network.jump_access[{i}]", other)
    if own.jump_access and not (own.jump_subnet or settings.of(AccessSettings).jump_machine):
        yield "network.jump_access: has no effect; set network.jump_subnet to true"


def _needs(settings: Settings) -> tuple[Needed, ...]:
    own = settings.of(AccessSettings)
    if not own.jump_machine:
        return ()
    subscription = f"/subscriptions/{settings.subscription.id}"
    feature = Needed(
        "features",
        "EncryptionAtHost",
        f"{subscription}/providers/Microsoft.Features/providers/Microsoft.Compute/features"
        "/EncryptionAtHost",
        "2021-07-01",
        {"properties.state": ("Registered",)},
        "the jump machine's disks are encrypted on their host; the owner of the subscription"
        " registers this once (az feature register --namespace Microsoft.Compute --name"
        " EncryptionAtHost, and afterwards az provider register --namespace Microsoft.Compute)",
    )
    named = own.existing_bastion
    bastion = (
        ()
        if named is None
        else (Needed("services", "access.existing_bastion", named, NETWORK_VERSION),)
    )
    own_providers = ("Microsoft.Compute", "Microsoft.DevTestLab")
    return (*(provider(settings, one) for one in own_providers), feature, *bastion)


LEAF: Final = Leaf(
    groups={"access": AccessSettings, "network": SubnetSettings},
    checks=(
        Check(("network", "access"), _subnet),
        Check(("access", "network", "clusters"), _machine),
        Check(("access", "network", "resource_group"), _way),
    ),
    names=(MACHINE, SCHEDULE, BASTION, BASTION_ADDRESS),
    subnets=_subnets,
    needs=_needs,
    declare="infra.extras.jump_machine.component:declare",
    facts="infra.extras.jump_machine.security:FACTS",
    types={
        "network:BastionHost": "Microsoft.Network/bastionHosts/{bastionHostName}",
        "network:NetworkInterface": "Microsoft.Network/networkInterfaces/{networkInterfaceName}",
        "compute:VirtualMachine": "Microsoft.Compute/virtualMachines/{vmName}",
        "compute:VirtualMachineExtension": (
            "Microsoft.Compute/virtualMachines/{vmName}/extensions/{vmExtensionName}"
        ),
        "devtestlab:GlobalSchedule": "Microsoft.DevTestLab/schedules/{name}",
    },
)
