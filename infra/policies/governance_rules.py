"""Rules on tags, logs, budget and locks."""

import re
from collections.abc import Iterator, Mapping, Sequence

from infra.policies.rule import Posture, ResourceRule, StackRule, named
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

TAGGED = frozenset(
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
        "monitor:ActionGroup",
        "monitor:PrivateLinkScope",
        "monitor:ScheduledQueryRule",
        "network:NatGateway",
        "network:NetworkSecurityGroup",
        "network:PrivateEndpoint",
        "network:PublicIPAddress",
        "network:ServiceEndpointPolicy",
        "privatedns:PrivateZone",
        "privatedns:VirtualNetworkLink",
    }
)
"""Types whose resources carry tags."""

LOGGING = {
    WORKSPACE: ("Microsoft.MachineLearningServices/workspaces", "workspaceName", ""),
    VAULT: ("Microsoft.KeyVault/vaults", "vaultName", ""),
    REGISTRY: ("Microsoft.ContainerRegistry/registries", "registryName", ""),
    STORAGE: ("Microsoft.Storage/storageAccounts", "accountName", "/blobServices/default"),
}
"""Services that write resource logs: the Azure type, the input with the name, and the path of the
part that writes the logs."""

LOCKS = re.compile(r"authorization:ManagementLock(?!AtResourceLevel)\w*")
WHOLE_GROUP = re.compile(
    r"/subscriptions/[^/]+(/resourceGroups/[^/]+"
    r"(/providers/Microsoft\.Network/virtualNetworks/[^/]+)?)?/?",
    re.IGNORECASE,
)


def _tags(resource: Resource, posture: Posture) -> Iterator[str]:
    if resource.kind not in TAGGED:
        return
    missing = sorted(posture.tags - {key for key, text in _mapping(resource, "tags") if text})
    if missing:
        yield f"has no tag {', '.join(missing)}"


REQUIRED_TAGS = ResourceRule(
    "required-tags",
    "Every resource that can have tags carries the stack's tags, which identify its owner and cost "
    "center.",
    "Pass the stack's tags when the resource is declared.",
    _tags,
)


def _budget(
    resources: Sequence[Resource], _posture: Posture
) -> Iterator[tuple[Resource | None, str]]:
    budgets = of_kind(resources, "consumption:Budget")
    if not budgets:
        yield None, "has no budget"
    for budget in budgets:
        reached = set()
        for _, notification in _mapping(budget, "notifications"):
            people = ("contactEmails", "contactGroups", "contactRoles")
            if notification.get("enabled") and any(notification.get(key) for key in people):
                reached.add(notification.get("thresholdType"))
        for threshold_type in sorted({"Actual", "Forecasted"} - reached):
            yield budget, f"notifies nobody of {threshold_type.lower()} spending"


BUDGET = StackRule(
    "budget-present",
    "The stack has a budget that notifies somebody of actual and of forecast spending.",
    "Declare one with an e-mail address for both kinds of notification.",
    _budget,
)


def _diagnostics(
    resources: Sequence[Resource], _posture: Posture
) -> Iterator[tuple[Resource | None, str]]:
    watched = [
        str(input_at(setting, "resourceUri"))
        for setting in of_kind(resources, "monitor:DiagnosticSetting")
        if input_at(setting, "workspaceId")
        and any(log.get("enabled") for log in entries_at(setting, "logs"))
    ]
    for service in of_kind(resources, *LOGGING):
        provider, key, part = LOGGING[service.kind]
        name = f"{input_at(service, key)}{part}"
        if not any(named(uri, provider, name) for uri in watched):
            yield service, "no diagnostic setting sends its logs to the log workspace"


DIAGNOSTICS = StackRule(
    "diagnostics",
    "Workspace, vault, registry and the blob service of every account send their logs to the log "
    "workspace.",
    "Declare a DiagnosticSetting for this service.",
    _diagnostics,
)


def _locks(resource: Resource, _posture: Posture) -> Iterator[str]:
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

RULES = (REQUIRED_TAGS, BUDGET, DIAGNOSTICS, NO_GROUP_LOCK)


def _mapping(resource: Resource, path: str) -> list[tuple[str, Mapping[str, str]]]:
    mapping = input_at(resource, path)
    return list(mapping.items()) if isinstance(mapping, Mapping) else []
