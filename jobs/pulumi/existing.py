"""Questions to Azure about needs that a stack does not declare: resources that its settings name,
and the switches of the subscription.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_network
from typing import Any, Final

from common.errors import UserError
from infra.prerequisites import CONTAINERS, Need
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import AccessError, MissingError

ZONES: Final = "2024-06-01"
"""API version of private DNS zones."""
_RESERVED: Final = 5
"""Addresses of each subnet that Azure keeps (Azure Virtual Network, "FAQ")."""


def look_up(manager: ResourceManager, needs: Sequence[Need], *, deployed: bool) -> str:
    """Return the finding.

    Args:
        manager: Client of Resource Manager.
        needs: What must exist.
        deployed: Whether the stack is deployed, and may use addresses of its subnets already.

    Raises:
        UserError: Something does not exist, or is not as the stack needs it; with all problems.
    """
    unasked: list[str] = []
    problems: list[str] = []
    for need in needs:
        try:
            problems += _problems(manager, need, deployed=deployed)
        except AccessError:
            unasked.append(need.setting)
        except MissingError:
            problems.append(f"{need.setting}: {need.id} does not exist; {_cure(need)}")
    if problems:
        raise UserError("\n".join(problems))
    answered = f"{len(needs) - len(unasked)} as needed"
    # Rights on one resource group do not allow to ask about everything.
    unknown = ", ".join(dict.fromkeys(unasked))
    return f"not asked about {unknown}; {answered}" if unasked else answered


def _problems(manager: ResourceManager, need: Need, *, deployed: bool) -> Iterator[str]:
    body = manager.get(need.id, need.version)
    for path, accepted in need.holds.items():
        value = _at(body, path)
        if not any(_same(value, good) for good in accepted):
            shown = "not set" if value is None else repr(value)
            named = [repr(good) for good in accepted if good not in (None, [])]
            wanted = " or ".join(named) or "not set"
            yield (
                f"{need.setting}: {_name(need.id)} has {path.rpartition('.')[2]} {shown} and must"
                f" have {wanted}; {_cure(need)}"
            )
    if need.either and not any(
        _same(value, good)
        for path, accepted in need.either.items()
        for value in _values(body, path)
        for good in accepted
    ):
        shown = " and ".join(
            f"{path.rpartition('.')[2]} {_at(body, path)!r}" for path in need.either
        )
        yield f"{need.setting}: {_name(need.id)} has {shown}; {_cure(need)}"
    if need.addresses:
        yield from _room(need, body, deployed=deployed)
    if need.linked_to is not None:
        yield from _link(manager, need, need.linked_to)
    yield from _other_zones(manager, need)


def _room(need: Need, subnet: Mapping[str, Any], *, deployed: bool) -> Iterator[str]:
    """Check the size of a subnet, and its free addresses unless some are the stack's own."""
    properties = subnet.get("properties") or {}
    ranges = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    sizes = [
        ip_network(text).num_addresses - _RESERVED for text in ranges if text and ":" not in text
    ]
    if not sizes:
        return
    for text in ranges:
        if text and ":" not in text and ip_network(text).overlaps(CONTAINERS):
            yield (
                f"{need.setting}: {_name(need.id)} is in {text}, which overlaps {CONTAINERS},"
                " which the nodes' containers use; name a subnet of a network without it"
            )
    used = 0 if deployed else len(properties.get("ipConfigurations") or ())
    free = sum(sizes) - used
    if free < need.addresses:
        yield (
            f"{need.setting}: {_name(need.id)} has {max(free, 0)} free addresses, and the stack"
            f" needs {need.addresses}; use a larger subnet, or for nodes smaller clusters"
        )


def _link(manager: ResourceManager, need: Need, network: str) -> Iterator[str]:
    """Check that a zone is linked to a network, or that the network has DNS servers of its own."""
    if _is_linked(manager, need.id, network):
        return
    servers = _at(manager.get(network, "2024-05-01"), "properties.dhcpOptions.dnsServers")
    if not servers:
        yield (
            f"{need.setting}: zone {_name(need.id)} is not linked to {_name(network)}, and that"
            " network has no DNS servers of its own, so its nodes could not resolve the names; the"
            " zone's owner links it (az network private-dns link vnet create), or set"
            " network.dns_links to declared"
        )


def _other_zones(manager: ResourceManager, need: Need) -> Iterator[str]:
    """Check that a network is linked to no other zone of the names of the stack's own, as far as
    the user may list the zones of both subscriptions.
    """
    own = {_name(zone).lower(): zone.lower() for zone in need.zones}
    scopes = {"/".join(id_.split("/")[:3]) for id_ in (need.id, *need.zones)} if own else set()
    for scope in sorted(scopes):
        with suppress(AccessError, MissingError):
            listed = f"{scope}/providers/Microsoft.Network/privateDnsZones"
            for zone in manager.items(listed, ZONES):
                id_ = str(zone["id"])
                if own.get(_name(id_).lower(), id_.lower()) == id_.lower():
                    continue
                if _is_linked(manager, id_, need.id):
                    yield (
                        f"{need.setting}: {_name(need.id)} is linked to {id_}, and Azure links a"
                        " network to one zone of a name; use that zone (its group in"
                        " network.existing_dns_zones), or its owner removes the link"
                    )


def _is_linked(manager: ResourceManager, zone: str, network: str) -> bool:
    links = list(manager.items(f"{zone}/virtualNetworkLinks", ZONES))
    return any(_same(_at(link, "properties.virtualNetwork.id"), network) for link in links)


def _at(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _values(tree: Any, path: str) -> list[Any]:
    """Return the value at a path, or the items of a list there."""
    value = _at(tree, path)
    return value if isinstance(value, list) else [value]


def _same(value: object, accepted: object) -> bool:
    if isinstance(value, str) and isinstance(accepted, str):
        return value.lower() == accepted.lower()
    return value == accepted and type(value) is type(accepted)


def _cure(need: Need) -> str:
    return need.cure or f"check the id in {need.setting}"


def _name(id_: str) -> str:
    return id_.rpartition("/")[2]
