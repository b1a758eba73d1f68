"""The services of a stack, and the rules that everything refers to them and to no others.

Their names are read from the stack itself: a service that exists keeps its name, however names are
formed now.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from infra.catalog import resource_ids
from infra.resources import (
    COMPUTE,
    CONTAINER,
    DATASTORE,
    INSIGHTS,
    LOGS,
    NETWORK,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)
from infra.rules.facts import extended, of_leaves
from infra.rules.rule import (
    UNCHECKED,
    Faults,
    OfResource,
    Required,
    Rule,
    named,
    same,
    shown,
    values_at,
)
from infra.settings import ClusterSettings, Settings

ALIAS: Final = "/services/Azure/MachineLearning"
"""Azure Machine Learning's own accounts, in a service endpoint policy."""
ACCOUNTS: Final = ("default", "data")
TYPES: Final[Mapping[str, tuple[str, str]]] = {
    STORAGE: ("Microsoft.Storage/storageAccounts", "accountName"),
    VAULT: ("Microsoft.KeyVault/vaults", "vaultName"),
    REGISTRY: ("Microsoft.ContainerRegistry/registries", "registryName"),
    LOGS: ("Microsoft.OperationalInsights/workspaces", "workspaceName"),
    WORKSPACE: ("Microsoft.MachineLearningServices/workspaces", "workspaceName"),
    NETWORK: ("Microsoft.Network/virtualNetworks", "virtualNetworkName"),
    "monitor:PrivateLinkScope": ("Microsoft.Insights/privateLinkScopes", "scopeName"),
    "network:BastionHost": ("Microsoft.Network/bastionHosts", "bastionHostName"),
    "network:NetworkSecurityGroup": (
        "Microsoft.Network/networkSecurityGroups",
        "networkSecurityGroupName",
    ),
    "network:PublicIPAddress": ("Microsoft.Network/publicIPAddresses", "publicIpAddressName"),
}
"""Types in Azure, and inputs with the names, of services that roles, endpoints and logs are of."""
_REFERENCES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    CONTAINER: {"accountName": ACCOUNTS},
    "storage:BlobServiceProperties": {"accountName": ACCOUNTS},
    "storage:FileServiceProperties": {"accountName": ("default",)},
    "storage:ManagementPolicy": {"accountName": ("default",)},
    DATASTORE: {"properties.accountName": ACCOUNTS, "workspaceName": ("workspace",)},
    COMPUTE: {"workspaceName": ("workspace",)},
    "monitor:DiagnosticSetting": {"workspaceId": ("logs",)},
    INSIGHTS: {"workspaceResourceId": ("logs",)},
    WORKSPACE: {
        "storageAccount": ("default",),
        "keyVault": ("vault",),
        "containerRegistry": ("registry",),
    },
    "network:ServiceEndpointPolicy": {
        "serviceEndpointPolicyDefinitions[].serviceResources[]": ACCOUNTS
    },
}
"""Inputs that refer to a service by id, name or address, and the services that they may mean. A
path that ends with `?` may be missing."""


def targets(resources: Sequence[Resource], settings: Settings) -> dict[str, tuple[str, str]]:
    """Return Azure type and name of the services of a stack, declared or existing, by label."""
    storage = settings.storage
    known = {
        "default": (STORAGE, "storage-default", storage.existing_default),
        "data": (STORAGE, "storage-data", storage.existing_data),
        "vault": (VAULT, "vault", settings.vault.existing),
        "registry": (REGISTRY, "registry", settings.registry.existing),
        "logs": (LOGS, "logs", settings.monitoring.existing_log_workspace),
        "workspace": (WORKSPACE, "workspace", None),
    }
    services = {"insights": ("Microsoft.Insights/components", settings.names.insights)}
    for label, (kind, resource, existing) in known.items():
        type_, key = TYPES[kind]
        declared = [item for item in of_kind(resources, kind) if item.name == resource]
        name = str(input_at(declared[0], key)) if declared else ""
        services[label] = type_, resource_ids.name(existing) if existing else name
    for service in ("default-blob", "default-file"):
        endpoint = settings.names.private_endpoint(service)
        services[f"{service}-endpoint"] = "Microsoft.Network/privateEndpoints", endpoint
    for facts in of_leaves():
        services |= facts.services(settings)
    return services


def label_of(id_: str, services: Mapping[str, tuple[str, str]]) -> str:
    """Return the label of the service that an id is of, or that it is inside of; empty for none."""
    return next((label for label, service in services.items() if named(id_, *service)), "")


def cluster_of(resource: Resource, settings: Settings) -> ClusterSettings | None:
    """Return the settings of a cluster by its name; None if the settings name no such cluster."""
    name = input_at(resource, "computeName")
    names = {settings.cluster_name(key): cluster for key, cluster in settings.clusters.items()}
    return names.get(str(name))


def by_cluster(read: Callable[[ClusterSettings, Settings], Required]) -> OfResource:
    """Expect what follows from the settings of a cluster; `identity-of-duty` refuses an unknown
    cluster.
    """

    def of_resource(resource: Resource, settings: Settings) -> Required:
        cluster = cluster_of(resource, settings)
        return UNCHECKED if cluster is None else read(cluster, settings)

    return OfResource(of_resource)


def ids_in(tree: Any) -> Iterator[str]:
    """Yield every id that the settings name."""
    if isinstance(tree, str):
        if tree.startswith("/subscriptions/"):
            yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for value in tree.values() if isinstance(tree, Mapping) else tree:
            yield from ids_in(value)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from ids_in(getattr(tree, field.name))


def _references(resources: Sequence[Resource], settings: Settings) -> Faults:
    services = targets(resources, settings)
    known = extended(_REFERENCES, *(facts.references for facts in of_leaves()))
    for resource in of_kind(resources, *known):
        for path, labels in known[resource.kind].items():
            for exact, value in values_at(resource.inputs, path.removesuffix("?").split(".")):
                if value == ALIAS or (value is None and path.endswith("?")):
                    continue
                if not any(same(_name(value), services[label][1]) for label in labels):
                    wanted = " or ".join(labels)
                    yield resource, f"{exact} is {shown(value)}, not the stack's {wanted}"


HOLDERS: Final = {"raw": "data", "prepared": "data", "results": "default"}
"""Account of each container."""


def _containers(resources: Sequence[Resource], settings: Settings) -> Faults:
    services = targets(resources, settings)
    for resource in of_kind(resources, CONTAINER, DATASTORE):
        own = resource.kind == CONTAINER
        inputs = resource.inputs if own else input_at(resource, "properties") or {}
        container, account = str(inputs.get("containerName")), inputs.get("accountName")
        if container not in HOLDERS or not same(account, services[HOLDERS[container]][1]):
            yield resource, f"the container {container} is in the account {account}"
        if not own and input_at(resource, "name") != f"training_data_{container}":
            yield resource, f"leads to the container {container}"


OWN_CONTAINERS = Rule(
    "own-containers",
    "Every container is in its account, and every datastore leads to the container that it is "
    "named after: results never lie among training data, which training may only read.",
    "Restore container, account and name.",
    of_stack=_containers,
)


def _name(value: object) -> str:
    """Return the name in an id, an address or a name."""
    text = str(value)
    if text.startswith("https://"):
        return text.removeprefix("https://").split(".")[0]
    # A whole group or subscription in a service endpoint policy is not a service.
    return resource_ids.name(text) if "/providers/" in text or "/" not in text else text


OWN_SERVICES = Rule(
    "own-services",
    "Workspace, datastores, containers, encryption and the storage policy of the network refer to "
    "the stack's own services.",
    "Restore it; to use a service that exists already, name it in the stack's settings.",
    of_stack=_references,
)
