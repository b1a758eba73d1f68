"""A stack as data: every resource that the program declares, with its inputs and options.

Pure and standard library only. The rules, the snapshots and the table of costs read
these, whether they come from a render or from a file written by one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.catalog import resource_ids

WORKSPACE = "machinelearningservices:Workspace"
COMPUTE = "machinelearningservices:Compute"
DATASTORE = "machinelearningservices:Datastore"
STORAGE = "storage:StorageAccount"
CONTAINER = "storage:BlobContainer"
REGISTRY = "containerregistry:Registry"
VAULT = "keyvault:Vault"
LOGS = "operationalinsights:Workspace"
INSIGHTS = "applicationinsights:Component"
IDENTITY = "managedidentity:UserAssignedIdentity"
ASSIGNMENT = "authorization:RoleAssignment"
DEFINITION = "authorization:RoleDefinition"
NETWORK = "network:VirtualNetwork"
LINK = "privatedns:VirtualNetworkLink"
GROUP = "resources:ResourceGroup"
PROVIDER = "pulumi:providers:azure-native"
"""Type of the providers of a stack."""
OWN_PROVIDER = "azure"
"""Name of the provider that all resources have but those in a subscription of others."""


@dataclass(frozen=True)
class Resource:
    """One declared resource."""

    type: str
    """Pulumi's token, such as `azure-native:storage:StorageAccount`."""

    name: str
    """Logical name, unique among the resources of its type."""

    inputs: Mapping[str, Any]
    """Inputs for the provider, with its camelCase keys; empty for a component."""

    options: Mapping[str, Any]
    """Resource options that were set. `parent`, `dependsOn` and `deletedWith` name other resources
    by their `key`; `dependsOn` includes the resources that an input refers to."""

    id: str
    """Id that Azure would assign; empty for a component."""

    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What Azure adds, of what rules read; a deployed resource has it among its inputs."""

    @property
    def key(self) -> str:
        """Identifier of this resource in other resources' options."""
        return f"{self.type}::{self.name}"

    @cached_property
    def kind(self) -> str:
        """`module:Kind` of the type, such as `storage:StorageAccount`; see the constants above."""
        return resource_ids.kind_of(self.type)


def of_kind(resources: Sequence[Resource], *kinds: str) -> list[Resource]:
    """Return the resources of these kinds."""
    return [resource for resource in resources if resource.kind in kinds]


def value_at(inputs: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path; None if any part of it is missing."""
    value: Any = inputs
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def input_at(resource: Resource, path: str) -> Any:
    """Return the input at a dotted path; None if any part of it is missing."""
    return value_at(resource.inputs, path)


def entries_at(resource: Resource, path: str) -> Sequence[Any]:
    """Return the list at a dotted path; empty if it is missing."""
    return input_at(resource, path) or ()


def texts_at(rule: Mapping[str, Any], key: str) -> list[str]:
    """Return the values of a property that Azure has once as a text and once as a list, such as the
    ports of a security rule.
    """
    several = f"{key}es" if key.endswith("x") else f"{key}s"
    return [str(one) for one in (rule.get(key), *(rule.get(several) or ())) if one]


def to_json(resources: Iterable[Resource]) -> str:
    """Return the resources as a JSON list by type and name, so that equal stacks are equal text."""
    rows = [
        {
            "type": resource.type,
            "name": resource.name,
            "inputs": resource.inputs,
            "options": resource.options,
            "id": resource.id,
        }
        for resource in sorted(resources, key=lambda resource: (resource.type, resource.name))
    ]
    return json.dumps(rows, indent=2, sort_keys=True) + "\n"


def read(path: Path) -> list[Resource]:
    """Read the resources of a file that `to_json` was written to.

    Raises:
        ValueError: the file is not a JSON list of resources.
    """
    try:
        return [Resource(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a rendered stack: {error}") from error


def requirements(resources: Sequence[Resource]) -> dict[str, frozenset[str]]:
    """Return the keys of all resources that must exist before each resource, directly or
    indirectly.

    Raises:
        ValueError: two resources share a key, or a resource depends on itself.
    """
    direct: dict[str, list[str]] = {}
    for resource in resources:
        if resource.key in direct:
            raise ValueError(f"{resource.key} is declared twice")
        direct[resource.key] = list(resource.options.get("dependsOn", ()))
    complete: dict[str, frozenset[str]] = {}

    def follow(key: str, path: tuple[str, ...]) -> frozenset[str]:
        if key in path:
            raise ValueError("circular dependency: " + " -> ".join((*path, key)))
        if key not in complete:
            needed = direct.get(key, [])
            complete[key] = frozenset(needed).union(
                *(follow(other, (*path, key)) for other in needed)
            )
        return complete[key]

    return {key: follow(key, ()) for key in direct}
