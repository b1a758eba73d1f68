"""The address plan: subnets of a virtual network with room for every node of the clusters."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from infra.errors import AddressError
from infra.naming import SubnetRole

RESERVED_BY_AZURE = 5
"""Addresses that Azure reserves in each subnet: the first four and the last one."""
SMALLEST_SUBNET = 29
DOCKER_BRIDGE = IPv4Network("172.17.0.0/16")
"""Nodes use it for their containers, so no network that they communicate with may overlap it (Azure
Machine Learning, "Secure a workspace with virtual networks")."""
WIDEST_ALLOWED = 16
"""Prefix length of the largest public range that may be allowed."""
ENDPOINT_ADDRESSES = 27
"""Room for private endpoints: more than they take with every option (`Endpoint.addresses`), as
Azure cannot move a subnet that is in use."""
PRIVATE = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)


@dataclass(frozen=True)
class AddressPlan:
    """Disjoint subnets inside one address space."""

    space: IPv4Network
    subnets: Mapping[SubnetRole, IPv4Network]
    """The declared subnets by role."""


def usable(subnet: IPv4Network) -> int:
    """Return the number of addresses that are left for nodes and endpoints."""
    return subnet.num_addresses - RESERVED_BY_AZURE


def prefix_length(addresses: int) -> int:
    """Return the prefix length of the smallest subnet with this many usable addresses."""
    needed = addresses + RESERVED_BY_AZURE
    return min(SMALLEST_SUBNET, 32 - (needed - 1).bit_length())


def address_range(text: str) -> IPv4Network | None:
    """Return an IPv4 address or range; None if the text is neither."""
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def private_range_problems(key: str, text: str) -> Iterator[str]:
    """Yield the faults of a private range that the settings have at a key."""
    range_ = address_range(text)
    if range_ is None:
        yield f"{key}: {text!r} is not a range like 10.0.0.0/16"
    elif not any(range_.subnet_of(private) for private in PRIVATE):
        yield f"{key}: {text} is not private; list private ranges only"


def bridge_problems(key: str, text: str) -> Iterator[str]:
    """Yield the fault of an address or range that nodes reach, and that the settings have at a
    key.
    """
    range_ = address_range(text)
    if range_ is not None and range_.overlaps(DOCKER_BRIDGE):
        yield (
            f"{key}: {text} overlaps {DOCKER_BRIDGE}, which the nodes' containers use, so that jobs"
            " cannot reach it; leave that range out, or move its machines"
        )


def space_problems(space: str, others: tuple[str, ...] = ()) -> list[str]:
    """Return the fault of an address space.

    Args:
        space: address range of the virtual network, such as `10.64.0.0/22`.
        others: ranges that it must not overlap: those of peered networks.
    """
    try:
        network = IPv4Network(space)
    except ValueError as error:
        return [f"{space!r} is not an IPv4 range ({error}); write it like 10.64.0.0/22"]
    problems = []
    if network.overlaps(DOCKER_BRIDGE):
        problems.append(
            f"{space} overlaps {DOCKER_BRIDGE}, which the nodes' containers use; choose another"
        )
    elif not any(network.subnet_of(private) for private in PRIVATE):
        problems.append(
            f"{space} is not private; choose a range inside {', '.join(map(str, PRIVATE))}"
        )
    for other in others:
        try:
            overlaps = network.overlaps(IPv4Network(other))
        except ValueError:
            continue
        if overlaps:
            problems.append(f"{space} overlaps {other}, the range of a peered network")
    return problems


def plan(
    space: str, addresses: Mapping[SubnetRole, int], last: Mapping[SubnetRole, int] | None = None
) -> AddressPlan:
    """Lay out the subnets, the largest first, each aligned.

    Args:
        space: address range of the virtual network, in CIDR notation.
        addresses: number of addresses that each subnet has room for, by role.
        last: the same for subnets that come after all others, though they are large: Azure cannot
            move the subnets of a stack that is deployed.

    Raises:
        AddressError: the space is not a private range, overlaps that of the containers, or is too
            small.
    """
    problems = space_problems(space)
    if problems:
        raise AddressError(problems)
    network = IPv4Network(space)
    order = sorted(addresses, key=lambda role: prefix_length(addresses[role]))
    if last:
        order += list(last)
        addresses = {**addresses, **last}
    lengths = {role: prefix_length(count) for role, count in addresses.items()}
    starts: dict[SubnetRole, int] = {}
    total = 0
    for role in order:
        size = 2 ** (32 - lengths[role])
        starts[role] = -(-total // size) * size
        total = starts[role] + size
    if total > network.num_addresses:
        raise AddressError([_too_small(network, addresses, lengths, total)])
    first = int(network.network_address)
    placed = {role: IPv4Network((first + at, lengths[role])) for role, at in starts.items()}
    return AddressPlan(network, {role: placed[role] for role in addresses})


def _too_small(
    network: IPv4Network,
    addresses: Mapping[SubnetRole, int],
    lengths: dict[SubnetRole, int],
    total: int,
) -> str:
    needs = ", ".join(f"{role} /{lengths[role]} for {count}" for role, count in addresses.items())
    enough = 32 - (total - 1).bit_length()
    return (
        f"{network} has {network.num_addresses} addresses, but the subnets need {total} ({needs}; "
        f"Azure reserves {RESERVED_BY_AZURE} in each); use a /{enough}, or plan for fewer nodes"
    )
