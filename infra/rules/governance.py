"""Rules on tags, logs, locks, sizes and places: what holds for every resource of a kind."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from infra.resources import (
    COMPUTE,
    CONTAINER,
    GROUP,
    IDENTITY,
    INSIGHTS,
    LOGS,
    NETWORK,
    OWN_PROVIDER,
    PROVIDER,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
)
from infra.rules.expected import (
    exactly,
    same,
    shown,
    violated,
)
from infra.rules.facts import Logging, added, of_leaves
from infra.rules.invariants import named_in
from infra.rules.rule import Faults, ResourceRule, StackRule, named
from infra.settings import Settings
from infra.stack_config import PLACEHOLDERS

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


def _diagnostics(resources: Sequence[Resource], settings: Settings) -> Faults:
    logs: dict[str, set[str]] = {}
    for setting in of_kind(resources, DIAGNOSTIC):
        enabled = {
            str(log.get("categoryGroup") or log.get("category"))
            for log in entries_at(setting, "logs")
            if log.get("enabled") and input_at(setting, "workspaceId")
        }
        logs.setdefault(str(input_at(setting, "resourceUri")).lower(), set()).update(enabled)
    logging = {**_LOGGING, **added(lambda one: one.logs)}
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


def _largest(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.kind != COMPUTE:
        return
    for key, cluster in settings.clusters.items():
        if input_at(resource, "computeName") != settings.cluster_name(key):
            continue
        for path, expected in (
            ("properties.properties.vmSize", exactly(cluster.size)),
            ("properties.properties.vmPriority", exactly(cluster.azure_priority)),
            ("properties.properties.scaleSettings.maxNodeCount", exactly(cluster.max_nodes)),
            (
                "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown",
                exactly(f"PT{cluster.idle_seconds_before_scale_down}S"),
            ),
        ):
            yield from violated(resource, path, expected, settings)


AS_BUDGETED = ResourceRule(
    "clusters-as-set",
    "Every cluster has the size, the priority, the nodes and the idle time of the stack's "
    "settings, from which the budget was planned.",
    "Change the stack's settings rather than the cluster.",
    _largest,
)


def _purge(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.kind != VAULT:
        return
    purge = input_at(resource, "properties.enablePurgeProtection")
    if settings.protect and purge is not True:
        yield f"properties.enablePurgeProtection is {shown(purge)} and must be true in production"
    elif settings.vault.purge_protection and purge is not True:
        yield f"properties.enablePurgeProtection is {shown(purge)} and must be true as set"
    elif purge is False:
        yield "properties.enablePurgeProtection is false, which Azure rejects once it was true"


PURGE_PROTECTION = ResourceRule(
    "purge-protection",
    "In production a deleted vault cannot be purged before its retention period ends.",
    "Set it to true, or omit it where a vault may be purged.",
    _purge,
)

PROTECTED_KINDS = frozenset({STORAGE, CONTAINER, VAULT, "keyvault:Key", REGISTRY, LOGS, WORKSPACE})
"""Kinds whose deletion loses data, images, logs or the key to them."""


def _protected(resource: Resource, settings: Settings) -> Iterator[str]:
    if (
        settings.protect
        and resource.kind in PROTECTED_KINDS
        and not resource.options.get("protect")
    ):
        yield "Pulumi's protect option is off"


PROTECTED = ResourceRule(
    "protected",
    "In production Pulumi refuses to delete or replace storage and its containers, vault and key, "
    "registry, logs and workspace.",
    "Set protect in the resource's options.",
    _protected,
)

ELSEWHERE: Final = frozenset({"network:FlowLog", "privatedns:VirtualNetworkLink"})
"""Kinds that Azure, or the owner of a hub, keeps in another group."""


def _in_place(resource: Resource, settings: Settings) -> Iterator[str]:
    if not resource.type.startswith("azure-native:"):
        return
    group = [settings.names.resource_group]
    if resource.kind in ELSEWHERE:
        group.append((settings.network.existing_dns_zones or "").rpartition("/")[2])
        group.append("NetworkWatcherRG")
    abroad = any(resource.kind in one.abroad for one in of_leaves())
    for key, allowed in (("location", (settings.location, "global")), ("resourceGroupName", group)):
        given = None if abroad and key == "location" else input_at(resource, key)
        if given is not None and not any(same(given, one) for one in allowed):
            yield f"{key} is {shown(given)} and must be {shown(allowed[0])}"
    if resource.options.get("retainOnDelete"):
        yield "Pulumi's retainOnDelete option is on: a teardown would leave it, and its bill"


IN_PLACE = ResourceRule(
    "in-place",
    "Every resource is in the stack's group and region, and goes when the stack goes.",
    "Restore it; deploy another stack for another group or region.",
    _in_place,
)

IGNORED: Final[Mapping[str, str]] = {
    STORAGE: "accountName",
    REGISTRY: "registryName",
    VAULT: "vaultName",
    "network:PrivateEndpoint": "customDnsConfigs",
}
"""Inputs that keep the value that they have: names that hold data, and what Azure derives."""


def _ignored(resource: Resource, settings: Settings) -> Iterator[str]:
    allowed = {
        IGNORED.get(resource.kind),
        *(f"tags[{json.dumps(tag)}]" for tag in settings.ignored_tags),
    }
    for path in resource.options.get("ignoreChanges") or ():
        if path not in allowed:
            yield f"Pulumi's ignoreChanges option has {path}: a deployment would leave any value"


NOTHING_IGNORED = ResourceRule(
    "nothing-ignored",
    "A deployment restores each input that was changed in Azure, but for names that hold data, "
    "what Azure derives, and the tags that the settings leave to others.",
    "Remove the input from ignoreChanges.",
    _ignored,
)


def _ids(resource: Resource, settings: Settings) -> Iterator[str]:
    if not resource.type.startswith("azure-native:"):
        return
    homes = [re.escape(one.lower().rstrip("/")) for one in named_in(settings)]
    homes.append(_own_group(settings))
    known = re.compile(f"({'|'.join(homes)})(/.*)?")
    for path, value in _texts(resource.inputs):
        id_ = value.lower()
        if not id_.startswith("/subscriptions/") or "/roledefinitions/" in id_:
            continue
        if not known.fullmatch(id_):
            yield f"{path} is {value}, which is not of the stack's group nor named in its settings"


OWN_IDS = ResourceRule(
    "own-ids",
    "Every id that an input holds is of the stack's resource group, or named in its settings.",
    "Remove it; to use a resource that exists already, name it in the stack's settings.",
    _ids,
)


def _own_group(settings: Settings) -> str:
    """Return an expression for the stack's group, in any subscription if the stack is not pinned
    to one.
    """
    given = settings.subscription.id
    subscription = "[^/]+" if given == PLACEHOLDERS["id"] else re.escape(given.lower())
    group = re.escape(settings.names.resource_group.lower())
    return f"/subscriptions/{subscription}/resourcegroups/{group}"


def _texts(tree: Any, at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(tree, Mapping):
        for key in tree:
            yield from _texts(tree[key], f"{at}.{key}" if at else str(key))
            if str(key).startswith("/subscriptions/"):
                yield at, str(key)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for item in tree:
            yield from _texts(item, f"{at}[]")
    elif isinstance(tree, str):
        yield at, tree


def _providers(resource: Resource, settings: Settings) -> Iterator[str]:
    zones, tenant = settings.network.existing_dns_zones, settings.subscription.tenant
    hub = {"hub": zones.split("/")[2]} if zones and settings.network.dns_links == "declared" else {}
    subscriptions = {OWN_PROVIDER: settings.subscription.id, **hub}
    if resource.type == PROVIDER:
        wanted = {"subscriptionId": subscriptions.get(resource.name), "tenantId": tenant}
        for key, value in wanted.items():
            given = input_at(resource, key)
            if value is None or not same(given, value):
                yield f"{key} is {shown(given)} and must be {shown(value)}"
        return
    name = resource.options.get("provider") or OWN_PROVIDER
    linked = resource.kind == "privatedns:VirtualNetworkLink" and "hub" in hub
    if resource.type.startswith("azure-native:") and name != ("hub" if linked else OWN_PROVIDER):
        yield f"has the provider {name}, which is not that of its subscription"


OWN_SUBSCRIPTION = ResourceRule(
    "own-subscription",
    "Every resource is deployed to the subscription and with the tenant of the stack's settings; "
    "only links in a hub's zones are in the hub's subscription.",
    "Restore the provider's subscriptionId and tenantId, and the resource's provider.",
    _providers,
)
