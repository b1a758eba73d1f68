"""The closed world: every type, input and number of resources that a stack declares is known.

A table of what must not be cannot name what no one thought of, such as a property of a new API
version or a child resource that is gone. So every input must be in a rule's table, every kind of
resource must be known, and there are exactly as many of each kind as the settings ask for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from infra.resources import (
    COMPUTE,
    CONTAINER,
    DATASTORE,
    GROUP,
    INSIGHTS,
    LOGS,
    NETWORK,
    PROVIDER,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)
from infra.rules.expected import PRESENT
from infra.rules.facts import of_leaves
from infra.rules.rule import Faults, ResourceRule, Rule, StackRule
from infra.settings import Settings

OWN_TYPES = ("pulumi:pulumi:Stack", PROVIDER)
"""Types of the stack itself and of its providers for Azure."""


def only_reviewed(rules: Sequence[Rule]) -> ResourceRule:
    """Return the rule that only known types and inputs are declared.

    Args:
        rules: The other rules, whose tables hold the known inputs.
    """

    @cache
    def known() -> Mapping[str, frozenset[str]]:
        return _reviewed(rules)

    def faults(resource: Resource, _settings: Settings) -> Iterator[str]:
        if resource.type in OWN_TYPES or resource.type.startswith("platform:index:"):
            return
        if not resource.type.startswith("azure-native:"):
            yield f"{resource.type} is a type of another provider, which no rule knows"
            return
        if resource.kind not in known():
            yield f"{resource.kind} is a type that the platform does not declare"
            return
        for path in sorted(set(_paths(resource.inputs))):
            parts = path.split(".")
            above = {".".join(parts[: end + 1]) for end in range(len(parts))}
            if not (above | {one.removesuffix("[]") for one in above}) & known()[resource.kind]:
                yield f"sets {path}, which the platform does not declare"

    return ResourceRule(
        "only-reviewed",
        "The stack declares only the types and inputs that have been reviewed.",
        "Remove it; or decide in a rule's table what it may be.",
        faults,
    )


def _reviewed(rules: Sequence[Rule]) -> Mapping[str, frozenset[str]]:
    """Return the paths of the inputs that rules and leaves know, by kind of resource."""
    paths: dict[str, set[str]] = {}
    for rule in rules:
        for kind, inputs in rule.inputs.items():
            decided = dict.fromkeys(inputs) | (dict(inputs) if isinstance(inputs, Mapping) else {})
            paths.setdefault(kind, set()).update(
                path for path, expected in decided.items() if expected is not PRESENT
            )
    for kind, more in ((k, v) for one in of_leaves() for k, v in one.reviewed.items()):
        paths.setdefault(kind, set()).update(more.split())
    shared = {"location", "resourceGroupName", "tags"}
    return {kind: frozenset(inputs | shared) for kind, inputs in paths.items()}


def _paths(tree: Any, at: str = "") -> Iterator[str]:
    """Yield the path of every value, with `[]` for the items of a list."""
    if isinstance(tree, Mapping):
        for key in tree:
            yield from _paths(tree[key], f"{at}.{key}" if at else key)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for item in tree:
            yield from _paths(item, f"{at}[]")
    elif tree is not None:
        yield at


def _zone_count(settings: Settings) -> int:
    from_them = {zone for one in settings.endpoint_kinds.values() for zone in one.zones}
    return len(from_them)


def _counts(settings: Settings) -> dict[str, int]:
    """Return how many resources of a kind the settings ask for, for kinds that guard something."""
    storage, network = settings.storage, settings.network
    default, data = storage.existing_default is None, storage.existing_data is None
    own_network = network.existing is None
    leaving = settings.nodes is None or any(one.leaves for one in settings.leaf_subnets.values())
    gateway = int(own_network and network.route_table is None and leaving)
    zones = _zone_count(settings)
    skipped = {"default_storage": 2, "data_storage": 1, "vault": 1, "registry": 1}
    endpoints = sum(skipped.values()) + 1 - sum(skipped[k] for k in network.existing_endpoints)
    endpoints += len(settings.endpoint_kinds) - len(
        {"workspace", "registry", "blob", "file", "vault"}
    )
    links = {
        "own": zones * (1 + len(network.peer_with)),
        "hub": zones if network.dns_links == "declared" else 0,
        "policy": 0,
    }[network.dns_mode]
    return {
        GROUP: int(settings.resource_group.existing is None),
        WORKSPACE: 1,
        COMPUTE: len(settings.clusters),
        DATASTORE: 3,
        STORAGE: default + data,
        CONTAINER: default + 2 * data,
        "storage:BlobServiceProperties": default + data,
        "storage:FileServiceProperties": int(default),
        "storage:ManagementPolicy": int(default),
        VAULT: int(settings.vault.existing is None),
        REGISTRY: int(settings.registry.existing is None),
        LOGS: int(settings.monitoring.existing_log_workspace is None),
        INSIGHTS: int(settings.monitoring.application_insights),
        NETWORK: int(own_network),
        "network:NetworkSecurityGroup": len(settings.subnet_names) if own_network else 0,
        "network:ServiceEndpointPolicy": int(own_network and settings.nodes is None),
        "network:FlowLog": int(own_network and network.flow_logs_to is not None),
        "network:NatGateway": gateway,
        "network:PublicIPAddress": gateway,
        "network:PrivateEndpoint": endpoints,
        "network:PrivateDnsZoneGroup": 0 if network.dns_mode == "policy" else endpoints,
        "privatedns:PrivateZone": zones if network.dns_mode == "own" else 0,
        "privatedns:VirtualNetworkLink": links,
    }


def _complete(resources: Sequence[Resource], settings: Settings) -> Faults:
    declared = Counter(one.kind for one in resources)
    wanted = Counter(_counts(settings))
    for one in of_leaves():
        wanted.update(one.counts(settings))
    for kind, number in wanted.items():
        if declared[kind] != number:
            yield None, f"declares {declared[kind]} of {kind}, and its settings ask for {number}"
    names = [str(input_at(one, "containerName")) for one in of_kind(resources, CONTAINER)]
    for name in {name for name in names if names.count(name) > 1}:
        yield None, f"declares the container {name} twice"


COMPLETE = StackRule(
    "complete",
    "Nothing that guards the stack is missing, and nothing is there that its settings do not ask "
    "for: accounts with soft delete and ageing, vault, endpoints with their zones and links, "
    "security groups, gateways and public addresses, logs.",
    "Restore the resource; to do without it, change the stack's settings.",
    _complete,
)
