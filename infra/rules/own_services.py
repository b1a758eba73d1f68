"""The services of a stack, and the rule that everything refers to them and to no others.

Their names are read from the stack itself: a service that exists keeps its name, however names are
formed now.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from infra.catalog import resource_ids
from infra.resources import (
    COMPUTE,
    CONTAINER,
    DATASTORE,
    INSIGHTS,
    LOGS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)
from infra.rules.expected import same, shown, values_at
from infra.rules.facts import extended, of_leaves
from infra.rules.rule import Faults, Rule
from infra.settings import ClusterSettings, Settings

Targets = Sequence[tuple[str, tuple[str, str]]]
"""Services of a stack: label, Azure type and name."""
ALIAS: Final = "/services/Azure/MachineLearning"
"""Azure Machine Learning's own accounts, in a service endpoint policy."""
ACCOUNTS: Final = ("default", "data")
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
"""Inputs that refer to a service by id, name or address, and the services that they may mean."""


def references() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Return the references of the trunk and of the leaves."""
    return extended(_REFERENCES, *(facts.references for facts in of_leaves()))


REQUIRED: Final = frozenset(
    {
        "accountName",
        "containerRegistry",
        "keyVault",
        "linkedResourceId",
        "properties.accountName",
        "scopeName",
        "scopes[]",
        "storageAccount",
        "vaultName",
        "workspaceId",
        "workspaceName",
        "workspaceResourceId",
    }
)
"""Inputs that must be there."""


def targets(resources: Sequence[Resource], settings: Settings) -> Targets:
    """Return the services of a stack, declared or existing."""
    names, storage = settings.names, settings.storage
    account = "Microsoft.Storage/storageAccounts"

    def name(resource: str, key: str, existing: str | None, kind: str) -> str:
        declared = [
            str(input_at(service, key))
            for service in of_kind(resources, kind)
            if service.name == resource
        ]
        return resource_ids.name(existing) if existing else next(iter(declared), "")

    default = name("storage-default", "accountName", storage.existing_default, STORAGE)
    data = name("storage-data", "accountName", storage.existing_data, STORAGE)
    vault = name("vault", "vaultName", settings.vault.existing, VAULT)
    registry = name("registry", "registryName", settings.registry.existing, REGISTRY)
    logs = name("logs", "workspaceName", settings.monitoring.existing_log_workspace, LOGS)
    workspace = name("workspace", "workspaceName", None, WORKSPACE)
    return [
        ("default", (account, default)),
        ("data", (account, data)),
        ("vault", ("Microsoft.KeyVault/vaults", vault)),
        ("registry", ("Microsoft.ContainerRegistry/registries", registry)),
        ("insights", ("Microsoft.Insights/components", names.insights)),
        ("logs", ("Microsoft.OperationalInsights/workspaces", logs)),
        ("workspace", ("Microsoft.MachineLearningServices/workspaces", workspace)),
        *(row for facts in of_leaves() for row in facts.services(settings).items()),
        *(
            ("endpoint", ("Microsoft.Network/privateEndpoints", names.private_endpoint(service)))
            for service in ("default-blob", "default-file")
        ),
    ]


def cluster_of(resource: Resource, settings: Settings) -> ClusterSettings | None:
    """Return the settings of a cluster by its name; None if the settings name no such cluster."""
    name = input_at(resource, "computeName")
    names = {settings.cluster_name(key): cluster for key, cluster in settings.clusters.items()}
    return names.get(str(name))


def _references(resources: Sequence[Resource], settings: Settings) -> Faults:
    names = {label: name for label, (_, name) in targets(resources, settings)}
    known = references()
    for resource in of_kind(resources, *known):
        for path, labels in known[resource.kind].items():
            for exact, value in values_at(resource.inputs, path.split(".")):
                if value is None and path not in REQUIRED:
                    continue
                if value != ALIAS and not any(same(_name(value), names[label]) for label in labels):
                    wanted = " or ".join(labels)
                    yield resource, f"{exact} is {shown(value)}, not the stack's {wanted}"


HOLDERS: Final = {"raw": "data", "prepared": "data", "results": "default"}
"""Account of each container."""


def _containers(resources: Sequence[Resource], settings: Settings) -> Faults:
    accounts = {label: name for label, (_, name) in targets(resources, settings)}
    for resource in of_kind(resources, CONTAINER, DATASTORE):
        own = resource.kind == CONTAINER
        inputs = resource.inputs if own else input_at(resource, "properties") or {}
        container, account = str(inputs.get("containerName")), inputs.get("accountName")
        if not same(account, accounts.get(HOLDERS.get(container, ""), "")):
            yield resource, f"the container {container} is in the account {account}"
        name = input_at(resource, "name")
        if resource.kind == DATASTORE and name != f"training_data_{container}":
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
