"""The address plan: subnets of a virtual network with room for every node of the clusters."""

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
ENDPOINT_ADDRESSES = 27
"""Room for private endpoints. The workspace's takes 3, the registry's 2, each other 1 per group;
Azure Monitor's private link scope takes more than ten."""
JUMP_ADDRESSES = 11
BASTION_ADDRESSES = 59
"""Azure refuses a Bastion in a subnet smaller than a /26 (Azure Bastion, "FAQ")."""
PRIVATE = tuple(
    map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
)


@dataclass(frozen=True)
class AddressPlan:
    """Disjoint subnets inside one address space."""

    space: IPv4Network
    training: IPv4Network
    build: IPv4Network
    endpoints: IPv4Network
    jump: IPv4Network | None
    bastion: IPv4Network | None = None

    @property
    def subnets(self) -> dict[SubnetRole, IPv4Network]:
        """The declared subnets by role."""
        subnets: dict[SubnetRole, IPv4Network] = {
            "training": self.training,
            "build": self.build,
            "endpoints": self.endpoints,
        }
        optional: dict[SubnetRole, IPv4Network | None] = {
            "jump": self.jump,
            "bastion": self.bastion,
        }
        return subnets | {role: subnet for role, subnet in optional.items() if subnet is not None}


def usable(subnet: IPv4Network) -> int:
    """Return the number of addresses that are left for nodes and endpoints."""
    return subnet.num_addresses - RESERVED_BY_AZURE


def prefix_length(addresses: int) -> int:
    """Return the prefix length of the smallest subnet with this many usable addresses."""
    needed = addresses + RESERVED_BY_AZURE
    return min(SMALLEST_SUBNET, 32 - (needed - 1).bit_length())


def space_problems(space: str, others: tuple[str, ...] = ()) -> list[str]:
    """Return what is wrong with an address space.

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
    space: str,
    training_nodes: int,
    build_nodes: int,
    *,
    jump: bool = False,
    bastion: bool = False,
) -> AddressPlan:
    """Lay out the subnets, the largest first and that of a Bastion last, each aligned.

    Args:
        space: address range of the virtual network, in CIDR notation.
        training_nodes: nodes that may run in the training subnet at once, over all its clusters.
        build_nodes: nodes that may build images at once.
        jump: whether to include a subnet for a machine to work from.
        bastion: whether to include the subnet of a Bastion.

    Raises:
        AddressError: the space is not a private range, overlaps that of the containers, or is too
            small.
    """
    problems = space_problems(space)
    if problems:
        raise AddressError(problems)
    network = IPv4Network(space)
    addresses: dict[SubnetRole, int] = {
        "training": training_nodes,
        "build": build_nodes,
        "endpoints": ENDPOINT_ADDRESSES,
    }
    if jump:
        addresses["jump"] = JUMP_ADDRESSES
    lengths = {role: prefix_length(count) for role, count in addresses.items()}
    order = sorted(lengths, key=lambda role: lengths[role])
    if bastion:
        # Last, although it is large: Azure cannot move the subnets of a stack that is deployed.
        addresses["bastion"] = BASTION_ADDRESSES
        lengths["bastion"] = prefix_length(BASTION_ADDRESSES)
        order.append("bastion")
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
    return AddressPlan(
        network,
        placed["training"],
        placed["build"],
        placed["endpoints"],
        placed.get("jump"),
        placed.get("bastion"),
    )


def _too_small(
    network: IPv4Network,
    addresses: dict[SubnetRole, int],
    lengths: dict[SubnetRole, int],
    total: int,
) -> str:
    needs = ", ".join(f"{role} /{lengths[role]} for {count}" for role, count in addresses.items())
    enough = 32 - (total - 1).bit_length()
    return (
        f"{network} has {network.num_addresses} addresses, but the subnets need {total} ({needs}; "
        f"Azure reserves {RESERVED_BY_AZURE} in each); use a /{enough}, or plan for fewer nodes"
    )
