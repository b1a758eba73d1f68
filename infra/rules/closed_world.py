"""The closed world: every type, input and number of resources that a stack declares is known.

A table of what must not be cannot name what no one thought of, such as a property of a new API
version or a child resource that is gone. So `reviewed.json` records the inputs of stacks with every
option; `make -C tools snapshots` writes it, and a review reads what changed. An input that it does
not have is refused, and so is a new value of one that was the same in all stacks. There are exactly
as many resources of each kind as the settings ask for.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

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
from infra.rules.facts import extended, of_leaves
from infra.rules.rule import ANYTHING, UNCHECKED, Faults, Row, Rule, Table, optional
from infra.settings import Settings

RECORD: Final = Path(__file__).parent / "reviewed.json"
"""The values of each input in the stacks that were reviewed."""
OWN_TYPES = ("pulumi:pulumi:Stack", PROVIDER)
"""Types of the stack itself and of its providers for Azure."""
NAMES: Final = frozenset({"notifications", "tags"})
"""Inputs whose keys are names that the settings choose."""


@cache
def reviewed() -> Table:
    """Return the required values of each input, by kind of resource and path.

    The file has the value that an input has in all stacks, or null. A path that ends with `?` may
    be missing, and one that ends with `[]` is a list of objects.
    """
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return {kind: dict(map(_row, rows.items())) for kind, rows in record.items()}


def _row(item: tuple[str, Any]) -> tuple[str, Row]:
    path, value = item
    name = path.removesuffix("?").removesuffix("[]")
    if path.endswith("?"):
        return name, UNCHECKED if value is None else optional(value)
    return name, ANYTHING if value is None else value


def paths(tree: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the path of every input. A list of texts or numbers is one input, and so is a mapping
    whose keys are names; a list of objects has a path of its own, which ends with `[]`.
    """
    for key in tree:
        path, value = f"{at}{key}", tree[key]
        if isinstance(value, Mapping) and key not in NAMES and all(map(str.isalnum, value)):
            yield from paths(value, f"{path}.")
        elif _is_list(value) and any(isinstance(item, Mapping) for item in value):
            yield f"{path}[]"
            for item in value:
                yield from paths(item, f"{path}[].")
        elif value is not None and not (_is_list(value) and not value):
            yield path


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def as_declared(rule: Rule, others: Sequence[Rule]) -> Rule:
    """Return the rule on the inputs that were the same in all stacks, but for those that have a row
    in the table of this rule or of another.
    """
    decided = extended(*(other.table for other in (rule, *others)))
    record = {
        kind: {path: row for path, row in rows.items() if path not in decided.get(kind, ())}
        for kind, rows in reviewed().items()
    }
    return replace(rule, table=extended(record, rule.table))


def _unknown(resource: Resource, _settings: Settings) -> Iterator[str]:
    if resource.type in OWN_TYPES or resource.type.startswith("platform:index:"):
        return
    if not resource.type.startswith("azure-native:"):
        yield f"{resource.type} is a type of another provider, which no rule knows"
    elif resource.kind not in reviewed():
        yield f"{resource.kind} is a type that the platform does not declare"
    else:
        for path in sorted(set(paths(resource.inputs))):
            if path.removesuffix("[]") not in reviewed()[resource.kind]:
                yield f"sets {path}, which the platform does not declare"


ONLY_REVIEWED = Rule(
    "only-reviewed",
    "The stack declares only the types and inputs that have been reviewed.",
    "Remove it; or record it with `make -C tools snapshots`, in a commit that says why.",
    of_resource=_unknown,
)


def _counts(settings: Settings) -> dict[str, int]:
    """Return how many resources of a kind the settings ask for, for kinds that guard something."""
    storage, network = settings.storage, settings.network
    default, data = storage.existing_default is None, storage.existing_data is None
    own_network = network.existing is None
    leaving = settings.nodes is None or any(
        subnet.leaves for subnet in settings.leaf_subnets.values()
    )
    gateway = int(own_network and network.route_table is None and leaving)
    zones = len({zone for endpoint in settings.endpoint_kinds.values() for zone in endpoint.zones})
    # Both accounts have one for blobs; that of the default account has one for files, too.
    endpoints = len(settings.endpoint_kinds) + 1
    endpoints -= sum(2 if key == "default_storage" else 1 for key in network.existing_endpoints)
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
    declared = Counter(resource.kind for resource in resources)
    wanted = Counter(_counts(settings))
    for facts in of_leaves():
        wanted.update(facts.counts(settings))
    for kind, number in wanted.items():
        if declared[kind] != number:
            yield None, f"declares {declared[kind]} of {kind}, and its settings ask for {number}"
    names = [input_at(container, "containerName") for container in of_kind(resources, CONTAINER)]
    for name in {name for name in names if names.count(name) > 1}:
        yield None, f"declares the container {name} twice"


COMPLETE = Rule(
    "complete",
    "Nothing that guards the stack is missing, and nothing is there that its settings do not ask "
    "for: accounts with soft delete and ageing, vault, endpoints with their zones and links, "
    "security groups, gateways and public addresses, logs.",
    "Restore the resource; to do without it, change the stack's settings.",
    of_stack=_complete,
)
