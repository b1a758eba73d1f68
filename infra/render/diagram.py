"""Print the picture of a stack as Mermaid text, and its role assignments as a table:
`python -m infra.render.diagram STACK`.

Both are drawn from the declared resources alone: whatever refers to a subnet is in that subnet, and
a private endpoint leads to the service whose id it names. docs/platform.md holds those of `dev`.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from infra.catalog import resource_ids, roles
from infra.render.render import show
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    DEFINITION,
    GROUP,
    IDENTITY,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
)

ENDPOINT: Final = "network:PrivateEndpoint"
OUTBOUND: Final = "machinelearningservices:ManagedNetworkSettingsRule"
GATEWAY: Final = "network:NatGateway"
INTERFACE: Final = "network:NetworkInterface"
GUID: Final = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-?")
NODES: Final = "properties.properties"
FACTS: Final[Mapping[str, tuple[str, ...]]] = {
    COMPUTE: (
        f"{NODES}.vmSize",
        f"{NODES}.vmPriority",
        f"{NODES}.scaleSettings.minNodeCount",
        f"{NODES}.scaleSettings.maxNodeCount",
    ),
    "compute:VirtualMachine": ("hardwareProfile.vmSize",),
    REGISTRY: ("sku.name",),
    STORAGE: ("sku.name",),
    ENDPOINT: ("privateLinkServiceConnections.0.groupIds.0",),
}
"""Inputs that are shown with a resource's name, by its kind."""
SERVICES: Final = (WORKSPACE, REGISTRY, VAULT, STORAGE)


def mermaid(resources: Sequence[Resource]) -> str:
    """Return a flowchart in Mermaid's language; independent of the order of the resources."""
    resources = sorted(resources, key=lambda resource: (resource.type, resource.name))
    names = {id_: f"r{number}" for number, id_ in enumerate(_ids(resources))}
    inside = _inside(resources)
    lines = ["flowchart LR", '  internet(("internet"))']
    declared = {
        f"{network.id}/subnets/{subnet['name']}".lower(): f"{subnet['name']}<br>"
        f"{subnet['addressPrefix']}"
        for network in of_kind(resources, NETWORK)
        for subnet in entries_at(network, "subnets")
    }
    titles = declared | {id_: resource_ids.name(id_) for id_ in inside if id_ not in declared}
    spaces = [
        f"{resource_ids.name(one.id)} {', '.join(entries_at(one, 'addressSpace.addressPrefixes'))}"
        for one in of_kind(resources, NETWORK)
    ]
    lines.append(f'  subgraph network["{_plain(*spaces) or "existing virtual network"}"]')
    for number, (id_, title) in enumerate(titles.items()):
        lines.append(f'    subgraph subnet{number}["{_plain(title)}"]')
        lines += [f"      {_node(one, names)}" for one in inside.get(id_, ())]
        lines.append("    end")
    gateways = of_kind(resources, GATEWAY)
    lines += [f"    {_node(one, names)}" for one in gateways]
    lines.append("  end")
    placed = [one.id for many in inside.values() for one in many]
    if elsewhere := [one for one in of_kind(resources, COMPUTE) if one.id not in placed]:
        lines.append('  subgraph nodes["managed network of Azure Machine Learning"]')
        lines += [f"    {_node(one, names)}" for one in elsewhere]
        lines.append("  end")
    lines += [f"  {_node(one, names)}" for one in of_kind(resources, *SERVICES)]
    lines += _arrows(resources, names, list(titles))
    return "\n".join(lines) + "\n"


def table(resources: Sequence[Resource]) -> str:
    """Return the roles of each identity and each group of people, as a Markdown table."""
    identities = {one.key: resource_ids.name(one.id) for one in of_kind(resources, IDENTITY)}
    names = roles.NAMES | {
        str(input_at(one, "roleDefinitionId")): str(input_at(one, "roleName"))
        for one in of_kind(resources, DEFINITION)
    }
    held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for assignment in of_kind(resources, ASSIGNMENT):
        needed = assignment.options.get("dependsOn", ())
        group = f"group {input_at(assignment, 'principalId')}"
        holder = next((identities[key] for key in needed if key in identities), group)
        role = resource_ids.name(str(input_at(assignment, "roleDefinitionId")))
        scope = GUID.sub("", resource_ids.name(str(input_at(assignment, "scope"))))
        limited = " (with a condition)" if input_at(assignment, "condition") else ""
        held[holder][names.get(role, role)].add(f"`{scope}`{limited}")
    rows = [
        f"| {holder} | {role} | {', '.join(sorted(scopes))} |"
        for holder, by_role in sorted(held.items())
        for role, scopes in sorted(by_role.items())
    ]
    return "\n".join(["| who | role | on |", "|---|---|---|", *rows]) + "\n"


def _inside(resources: Sequence[Resource]) -> dict[str, list[Resource]]:
    """Return what is in each subnet, by the subnet's id: a machine is where its interface is."""
    inside: dict[str, list[Resource]] = defaultdict(list)
    for resource in resources:
        subnets = {
            one.lower()
            for one in _texts(resource.inputs)
            if resource_ids.name(one.rpartition("/")[0]) == "subnets"
        }
        users = [
            other
            for other in resources
            if resource.kind == INTERFACE and resource.id in _texts(other.inputs)
            if other.kind != ASSIGNMENT
        ]
        if resource.kind not in {NETWORK, WORKSPACE}:
            for id_ in sorted(subnets):
                inside[id_] += users or [resource]
    return inside


def _arrows(
    resources: Sequence[Resource], names: Mapping[str, str], subnets: Sequence[str]
) -> Iterator[str]:
    known = {resource.id.lower() for resource in of_kind(resources, *SERVICES)}
    for endpoint in of_kind(resources, ENDPOINT):
        for connection in entries_at(endpoint, "privateLinkServiceConnections"):
            id_ = str(connection["privateLinkServiceId"]).lower()
            target = names[id_] if id_ in known else f'{names[id_]}["{resource_ids.name(id_)}"]'
            known.add(id_)
            yield f"  {names[endpoint.id.lower()]} --> {target}"
    for network in of_kind(resources, NETWORK):
        for subnet in entries_at(network, "subnets"):
            number = subnets.index(f"{network.id}/subnets/{subnet['name']}".lower())
            if gateway := (subnet.get("natGateway") or {}).get("id"):
                yield f"  subnet{number} --> {names[str(gateway).lower()]}"
            if routes := (subnet.get("routeTable") or {}).get("id"):
                yield f"  subnet{number} -->|{_plain(resource_ids.name(routes))}| internet"
    yield from _outbound(resources, names)
    for gateway in of_kind(resources, GATEWAY):
        yield f"  {names[gateway.id.lower()]} --> internet"
    for service in of_kind(resources, *SERVICES):
        if str(input_at(service, "publicNetworkAccess")).lower() == "enabled":
            rules = entries_at(service, "networkRuleSet.ipRules")
            ranges = [str(rule["iPAddressOrRange"]) for rule in rules] or ["Entra sign-in"]
            yield f"  internet -->|{_plain(', '.join(ranges))}| {names[service.id.lower()]}"


def _outbound(resources: Sequence[Resource], names: Mapping[str, str]) -> Iterator[str]:
    """Yield an arrow for each rule of a managed network."""
    for rule in of_kind(resources, OUTBOUND):
        destination = input_at(rule, "properties.destination")
        if isinstance(destination, str):
            yield f"  nodes -->|{_plain(destination)}| internet"
        else:
            id_ = str(destination["serviceResourceId"]).lower()
            target = names.get(id_, f'outside["{_plain(resource_ids.name(id_))}"]')
            yield f"  nodes -->|managed endpoint| {target}"


def _node(resource: Resource, names: Mapping[str, str]) -> str:
    facts = [_text(resource.inputs, path) for path in FACTS.get(resource.kind, ())]
    nodes = f"{facts.pop(2)} to {facts.pop(2)} nodes" if resource.kind == COMPUTE else ""
    kind = resource.kind.partition(":")[2]
    words = [resource_ids.name(resource.id), kind, *facts, nodes]
    return f'{names[resource.id.lower()]}["{_plain(*words)}"]'


def _ids(resources: Sequence[Resource]) -> list[str]:
    """Return the ids of all resources, declared or referred to, in a stable order."""
    targets = [
        str(connection["privateLinkServiceId"])
        for endpoint in of_kind(resources, ENDPOINT)
        for connection in entries_at(endpoint, "privateLinkServiceConnections")
    ]
    declared = [one.id for one in resources if one.id and one.kind not in {ASSIGNMENT, GROUP}]
    return list(dict.fromkeys(id_.lower() for id_ in (*declared, *targets)))


def _text(tree: Any, path: str) -> str:
    """Return the input at a path; a number in it is a position in a list."""
    for key in path.split("."):
        tree = (tree or {}).get(key) if isinstance(tree, Mapping) or not tree else tree[int(key)]
    return "" if tree is None else str(tree)


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, Mapping | list):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _texts(part)
    elif isinstance(tree, str):
        yield tree


def _plain(*words: str) -> str:
    """Return words in lines of a label, without what Mermaid would read as markup."""
    return re.sub(r'["&|\[\](){}]|<(?!br>)', "", "<br>".join(filter(None, words)))


def main(arguments: Sequence[str]) -> int:
    """Print the picture and the table of a stack."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.diagram", description=__doc__)
    return show(parser, arguments, _print)


def _print(resources: Sequence[Resource], _options: argparse.Namespace) -> None:
    print(f"```mermaid\n{mermaid(resources)}```\n\n{table(resources)}", end="")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
