"""Rules on tags, logs, locks and places: what holds for every resource of a kind."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from infra.resources import (
    ASSIGNMENT,
    CONTAINER,
    LINK,
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
from infra.rules.closed_world import reviewed
from infra.rules.invariants import DIAGNOSTIC_SETTING, FILES
from infra.rules.network import BASTION, PUBLIC_ADDRESS, SECURITY_GROUP
from infra.rules.own_services import TYPES, ids_in
from infra.rules.rule import Faults, Rule, named, same, shown
from infra.settings import Settings
from infra.stack_config import PLACEHOLDERS

ALL_LOGS: Final = {"allLogs"}
WRITES: Final = {"StorageWrite", "StorageDelete"}

LOGGING: Final[Mapping[str, tuple[str, set[str]]]] = {
    **dict.fromkeys((WORKSPACE, VAULT, REGISTRY, NETWORK), ("", ALL_LOGS)),
    **dict.fromkeys((SECURITY_GROUP, PUBLIC_ADDRESS, BASTION), ("", ALL_LOGS)),
    LOGS: ("", {"audit"}),
    STORAGE: ("/blobServices/default", WRITES),
    FILES: ("/fileServices/default", WRITES),
}
"""Services that log, by kind: path of the part that logs, and the categories that must be
collected."""
LOCKS = re.compile(r"authorization:ManagementLock(?!AtResourceLevel)\w*")

WHOLE_GROUP = re.compile(
    r"/subscriptions/[^/]+(/resourceGroups/[^/]+"
    r"(/providers/Microsoft\.Network/virtualNetworks/[^/]+)?)?/?",
    re.IGNORECASE,
)


def _tags(resource: Resource, settings: Settings) -> Iterator[str]:
    if "tags" not in reviewed().get(resource.kind, {}):
        return
    wanted = {**settings.tags, "stack": settings.stack, "managed-by": "pulumi"}
    tags = input_at(resource, "tags")
    given = tags if isinstance(tags, Mapping) else {}
    if missing := sorted(tag for tag, text in wanted.items() if given.get(tag) != text):
        yield f"has not the stack's tag {', '.join(missing)}"


REQUIRED_TAGS = Rule(
    "required-tags",
    "Every resource that can have tags carries the stack's tags, which identify its owner and cost "
    "center.",
    "Pass the stack's tags when the resource is declared.",
    of_resource=_tags,
)


def _diagnostics(resources: Sequence[Resource], settings: Settings) -> Faults:
    logs: dict[str, set[str]] = {}
    for setting in of_kind(resources, DIAGNOSTIC_SETTING):
        enabled = {
            str(log.get("categoryGroup") or log.get("category"))
            for log in entries_at(setting, "logs")
            if log.get("enabled") and input_at(setting, "workspaceId")
        }
        logs.setdefault(str(input_at(setting, "resourceUri")).lower(), set()).update(enabled)
    for service in of_kind(resources, *LOGGING):
        part, wanted = LOGGING[service.kind]
        # The service of files has the name of its account.
        provider, key = TYPES[STORAGE if service.kind == FILES else service.kind]
        name = f"{input_at(service, key)}{part}"
        sent = [enabled for uri, enabled in logs.items() if named(uri, provider, name)]
        if wanted == WRITES and settings.monitoring.storage_reads:
            wanted = {*WRITES, "StorageRead"}
        if not any(wanted <= enabled for enabled in sent):
            yield service, f"no diagnostic setting sends its {' and '.join(sorted(wanted))}"


DIAGNOSTICS = Rule(
    "diagnostics",
    "Workspace, vault, registry, the blob service of every account, the log workspace, the "
    "network with its security groups, and resources with a public address send their logs to "
    "the log workspace.",
    "Declare a DiagnosticSetting for this service.",
    of_stack=_diagnostics,
)


def _locks(resource: Resource, _settings: Settings) -> Iterator[str]:
    if not LOCKS.fullmatch(resource.kind):
        return
    scope = str(input_at(resource, "scope") or "")
    if not resource.kind.endswith("ByScope") or WHOLE_GROUP.fullmatch(scope):
        yield f"locks {scope or 'a group or subscription'}"


NO_GROUP_LOCK = Rule(
    "no-group-lock",
    "No resource group, subscription or network is locked: Azure Machine Learning could then "
    "neither scale its clusters nor delete them.",
    "Lock individual resources by scope, or use Pulumi's protect option.",
    of_resource=_locks,
)


PROTECTED_KINDS = frozenset({STORAGE, CONTAINER, VAULT, "keyvault:Key", REGISTRY, LOGS, WORKSPACE})
"""Kinds whose deletion loses data, images, logs or the key to them."""


def _protected(resource: Resource, settings: Settings) -> Iterator[str]:
    asked = settings.protect and resource.kind in PROTECTED_KINDS
    if asked and not resource.options.get("protect"):
        yield "Pulumi's protect option is off"


PROTECTED = Rule(
    "protected",
    "In production Pulumi refuses to delete or replace storage and its containers, vault and key, "
    "registry, logs and workspace.",
    "Set protect in the resource's options.",
    of_resource=_protected,
)

ELSEWHERE: Final = frozenset({"network:FlowLog", LINK})
"""Kinds that Azure, or the owner of a hub, keeps in another group."""
GLOBAL: Final = frozenset(
    {"monitor:ActionGroup", "monitor:PrivateLinkScope", "privatedns:PrivateZone", LINK}
)
"""Kinds that are in no region."""
ABROAD: Final = frozenset({"containerregistry:Replication"})
"""Kinds whose resources are in other regions, which the rule `no-copies-outside` holds."""


def _in_place(resource: Resource, settings: Settings) -> Iterator[str]:
    if not resource.type.startswith("azure-native:"):
        return
    allowed = {
        "location": [settings.location],
        "resourceGroupName": [settings.names.resource_group],
    }
    if resource.kind in GLOBAL:
        allowed["location"].append("global")
    if resource.kind in ELSEWHERE:
        hub = (settings.network.existing_dns_zones or "").rpartition("/")[2]
        allowed["resourceGroupName"] += [hub, "NetworkWatcherRG"]
    if resource.kind in ABROAD:
        del allowed["location"]
    for key, values in allowed.items():
        given = input_at(resource, key)
        if given is not None and not any(same(given, value) for value in values):
            yield f"{key} is {shown(given)} and must be {shown(values[0])}"
    if resource.options.get("retainOnDelete"):
        yield "Pulumi's retainOnDelete option is on: a teardown would leave it, and its bill"


IN_PLACE = Rule(
    "in-place",
    "Every resource is in the stack's group and region, and goes when the stack goes.",
    "Restore it; deploy another stack for another group or region.",
    of_resource=_in_place,
)

IGNORED: Final[Mapping[str, str]] = {
    STORAGE: "accountName",
    REGISTRY: "registryName",
    VAULT: "vaultName",
    LOGS: "workspaceName",
    WORKSPACE: "workspaceName",
    ASSIGNMENT: "roleAssignmentName",
    LINK: "virtualNetworkLinkName",
    "network:PrivateEndpoint": "customDnsConfigs",
}
"""Inputs that keep the value that they have: names with a hash, and what Azure derives."""


def _ignored(resource: Resource, settings: Settings) -> Iterator[str]:
    allowed = {
        IGNORED.get(resource.kind),
        *(f"tags[{json.dumps(tag)}]" for tag in settings.ignored_tags),
    }
    for path in resource.options.get("ignoreChanges") or ():
        if path not in allowed:
            yield f"Pulumi's ignoreChanges option has {path}: a deployment would leave any value"


NOTHING_IGNORED = Rule(
    "nothing-ignored",
    "A deployment restores each input that was changed in Azure, but for names with a hash, "
    "what Azure derives, and the tags that the settings leave to others.",
    "Remove the input from ignoreChanges.",
    of_resource=_ignored,
)


def _ids(resource: Resource, settings: Settings) -> Iterator[str]:
    if not resource.type.startswith("azure-native:"):
        return
    homes = [re.escape(id_.lower().rstrip("/")) for id_ in ids_in(settings)]
    homes.append(_own_group(settings))
    known = re.compile(f"({'|'.join(homes)})(/.*)?")
    for path, value in _texts(resource.inputs):
        id_ = value.lower()
        if not id_.startswith("/subscriptions/") or "/roledefinitions/" in id_:
            continue
        if not known.fullmatch(id_):
            yield f"{path} is {value}, which is not of the stack's group nor named in its settings"


OWN_IDS = Rule(
    "own-ids",
    "Every id that an input holds is of the stack's resource group, or named in its settings.",
    "Remove it; to use a resource that exists already, name it in the stack's settings.",
    of_resource=_ids,
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


OWN_SUBSCRIPTION = Rule(
    "own-subscription",
    "Every resource is deployed to the subscription and with the tenant of the stack's settings; "
    "only links in a hub's zones are in the hub's subscription.",
    "Restore the provider's subscriptionId and tenantId, and the resource's provider.",
    of_resource=_providers,
)
