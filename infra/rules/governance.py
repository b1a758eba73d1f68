"""Rules on tags, logs and locks."""

import re
from collections.abc import Iterator, Mapping, Sequence

from infra.resources import (
    GROUP,
    IDENTITY,
    INSIGHTS,
    LOGS,
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
from infra.rules.facts import Logging, of_leaves
from infra.rules.rule import ResourceRule, StackRule, named
from infra.settings import Settings

_TAGGED = frozenset(
    {
        GROUP,
        IDENTITY,
        INSIGHTS,
        LOGS,
        NETWORK,
        REGISTRY,
        STORAGE,
        VAULT,
        WORKSPACE,
        "machinelearningservices:Compute",
        "network:FlowLog",
        "network:NatGateway",
        "network:NetworkSecurityGroup",
        "network:PrivateEndpoint",
        "network:PublicIPAddress",
        "network:ServiceEndpointPolicy",
        "privatedns:PrivateZone",
        "privatedns:VirtualNetworkLink",
    }
)
"""Types of the trunk whose resources carry tags."""


def tagged() -> frozenset[str]:
    """Return all types whose resources carry tags."""
    return _TAGGED.union(*(one.tagged for one in of_leaves()))


ALL_LOGS = frozenset({"allLogs"})
WRITES = frozenset({"StorageWrite", "StorageDelete"})
READS = frozenset({"StorageRead"})
_LOGGING: Mapping[str, Logging] = {
    WORKSPACE: Logging(
        "Microsoft.MachineLearningServices/workspaces", "workspaceName", "", ALL_LOGS
    ),
    VAULT: Logging("Microsoft.KeyVault/vaults", "vaultName", "", ALL_LOGS),
    REGISTRY: Logging("Microsoft.ContainerRegistry/registries", "registryName", "", ALL_LOGS),
    STORAGE: Logging(
        "Microsoft.Storage/storageAccounts", "accountName", "/blobServices/default", WRITES
    ),
    "storage:FileServiceProperties": Logging(
        "Microsoft.Storage/storageAccounts",
        "accountName",
        "/fileServices/default",
        WRITES,
    ),
    LOGS: Logging(
        "Microsoft.OperationalInsights/workspaces", "workspaceName", "", frozenset({"audit"})
    ),
    NETWORK: Logging("Microsoft.Network/virtualNetworks", "virtualNetworkName", "", ALL_LOGS),
    "network:NetworkSecurityGroup": Logging(
        "Microsoft.Network/networkSecurityGroups",
        "networkSecurityGroupName",
        "",
        ALL_LOGS,
    ),
    "network:PublicIPAddress": Logging(
        "Microsoft.Network/publicIPAddresses",
        "publicIpAddressName",
        "",
        ALL_LOGS,
    ),
}
"""Services of the trunk that write resource logs."""

DIAGNOSTIC = "monitor:DiagnosticSetting"

LOCKS = re.compile(r"authorization:ManagementLock(?!AtResourceLevel)\w*")
WHOLE_GROUP = re.compile(
    r"/subscriptions/[^/]+(/resourceGroups/[^/]+"
    r"(/providers/Microsoft\.Network/virtualNetworks/[^/]+)?)?/?",
    re.IGNORECASE,
)


def _tags(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.kind not in tagged():
        return
    wanted = {**settings.tags, "stack": settings.stack, "managed-by": "pulumi"}
    given = input_at(resource, "tags")
    if not isinstance(given, Mapping):
        given = {}
    if missing := sorted(tag for tag, text in wanted.items() if given.get(tag) != text):
        yield f"has not the stack's tag {', '.join(missing)}"


REQUIRED_TAGS = ResourceRule(
    "required-tags",
    "Every resource that can have tags carries the stack's tags, which identify its owner and cost "
    "center.",
    "Pass the stack's tags when the resource is declared.",
    _tags,
)


def _diagnostics(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    logs: dict[str, set[str]] = {}
    for setting in of_kind(resources, DIAGNOSTIC):
        enabled = {
            str(log.get("categoryGroup") or log.get("category"))
            for log in entries_at(setting, "logs")
            if log.get("enabled") and input_at(setting, "workspaceId")
        }
        logs.setdefault(str(input_at(setting, "resourceUri")).lower(), set()).update(enabled)
    logging = dict(_LOGGING)
    for one in of_leaves():
        logging |= one.logs
    for service in of_kind(resources, *logging):
        its = logging[service.kind]
        name = f"{input_at(service, its.name)}{its.part}"
        sent = [enabled for uri, enabled in logs.items() if named(uri, its.provider, name)]
        reads = its.wanted == WRITES and settings.monitoring.storage_reads
        wanted = its.wanted | READS if reads else its.wanted
        if not any(wanted <= enabled for enabled in sent):
            yield service, f"no diagnostic setting sends its {' and '.join(sorted(wanted))}"


DIAGNOSTICS = StackRule(
    "diagnostics",
    "Workspace, vault, registry, the blob service of every account, the log workspace, the "
    "network with its security groups, and what has a public address send their logs to the log "
    "workspace.",
    "Declare a DiagnosticSetting for this service.",
    _diagnostics,
)


def _locks(resource: Resource, _settings: Settings) -> Iterator[str]:
    if not LOCKS.fullmatch(resource.kind):
        return
    scope = str(input_at(resource, "scope") or "")
    if not resource.kind.endswith("ByScope") or WHOLE_GROUP.fullmatch(scope):
        yield f"locks {scope or 'a group or subscription'}"


NO_GROUP_LOCK = ResourceRule(
    "no-group-lock",
    "No resource group, subscription or network is locked: Azure Machine Learning could then "
    "neither scale its clusters nor delete them.",
    "Lock individual resources by scope, or use Pulumi's protect option.",
    _locks,
)

RULES = (REQUIRED_TAGS, DIAGNOSTICS, NO_GROUP_LOCK)
