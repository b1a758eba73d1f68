"""What each input of the trunk is, where each resource is, and which ids it may refer to."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    CONTAINER,
    DATASTORE,
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
    input_at,
)
from infra.rules.expected import (
    ANYTHING,
    PRESENT,
    Table,
    among,
    as_set,
    exactly,
    one_of,
    only_if,
    optional,
    same,
    shown,
    table_rule,
)
from infra.rules.facts import of_leaves
from infra.rules.rule import ResourceRule
from infra.settings import Settings
from infra.stack_config import PLACEHOLDERS

STANDARD: Final = {"sku.name": exactly("Standard")}
DEFAULT: Final = exactly("default")
DECIDED_ELSEWHERE: Final = optional(ANYTHING)
"""An input that a rule on several inputs or resources decides on."""

TABLE: Final[Table] = {
    ASSIGNMENT: dict.fromkeys(
        ("condition", "principalId", "roleDefinitionId", "scope"), DECIDED_ELSEWHERE
    )
    | {"roleAssignmentName": ANYTHING, "conditionVersion": optional(exactly("2.0"))},
    CONTAINER: {"containerName": one_of("raw", "prepared", "results")},
    COMPUTE: {
        "computeName": ANYTHING,
        "identity": DECIDED_ELSEWHERE,
        "properties.computeLocation": as_set(lambda s: s.location),
        "properties.computeType": exactly("AmlCompute"),
        "properties.properties.isolatedNetwork": exactly(value=False),
        "properties.properties.osType": exactly("Linux"),
        "properties.properties.scaleSettings.maxNodeCount": DECIDED_ELSEWHERE,
        "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": DECIDED_ELSEWHERE,
        "properties.properties.subnet.id": only_if(lambda s: s.nodes is None, DECIDED_ELSEWHERE),
        "properties.properties.vmPriority": DECIDED_ELSEWHERE,
        "properties.properties.vmSize": DECIDED_ELSEWHERE,
    },
    DATASTORE: {
        "name": one_of("training_data_raw", "training_data_prepared", "training_data_results"),
        "properties.containerName": one_of("raw", "prepared", "results"),
        "properties.datastoreType": exactly("AzureBlob"),
        "properties.resourceGroup": ANYTHING,
        "properties.subscriptionId": among(
            lambda s: (s.subscription.id, *(id_.split("/")[2] for id_ in _named_in(s))),
            "the stack's or that of a service in its settings",
        ),
    },
    GROUP: {},
    IDENTITY: {"resourceName": ANYTHING},
    INSIGHTS: {
        "applicationType": exactly("web"),
        "flowType": exactly("Bluefield"),
        "ingestionMode": exactly("LogAnalytics"),
        "kind": exactly("web"),
        "requestSource": exactly("rest"),
        "resourceName": ANYTHING,
    },
    LOGS: {
        "features.enableLogAccessUsingOnlyResourcePermissions": exactly(value=True),
        "sku.name": exactly("PerGB2018"),
        "workspaceName": ANYTHING,
    },
    NETWORK: {
        "addressSpace.addressPrefixes": PRESENT,
        "subnets": PRESENT,
        "enableDdosProtection": exactly(value=False),
        "enableVmProtection": exactly(value=False),
        "subnets[].privateLinkServiceNetworkPolicies": exactly("Disabled"),
        "virtualNetworkName": ANYTHING,
        "virtualNetworkPeerings[].allowForwardedTraffic": exactly(value=True),
        "virtualNetworkPeerings[].allowVirtualNetworkAccess": exactly(value=True),
        "virtualNetworkPeerings[].name": ANYTHING,
        "virtualNetworkPeerings[].remoteVirtualNetwork.id": DECIDED_ELSEWHERE,
        "virtualNetworkPeerings[].useRemoteGateways": DECIDED_ELSEWHERE,
        **dict.fromkeys(
            (
                "subnets[].addressPrefix",
                "subnets[].defaultOutboundAccess",
                "subnets[].name",
                "subnets[].natGateway.id",
                "subnets[].networkSecurityGroup.id",
                "subnets[].privateEndpointNetworkPolicies",
                "subnets[].routeTable.id",
                "subnets[].serviceEndpointPolicies",
                "subnets[].serviceEndpoints",
            ),
            DECIDED_ELSEWHERE,
        ),
    },
    REGISTRY: {
        "dataEndpointEnabled": exactly(value=True),
        "policies.quarantinePolicy.status": exactly("disabled"),
        "policies.retentionPolicy.status": exactly("enabled"),
        "registryName": ANYTHING,
        "sku.name": exactly("Premium"),
        "zoneRedundancy": as_set(lambda s: "Enabled" if s.registry.zone_redundant else "Disabled"),
    },
    STORAGE: {
        "accessTier": optional(exactly("Hot")),
        "accountName": ANYTHING,
        "encryption.services.blob.keyType": exactly("Account"),
        "encryption.services.file.keyType": optional(exactly("Account")),
        "isHnsEnabled": exactly(value=False),
        "kind": one_of("BlockBlobStorage", "StorageV2"),
        "networkRuleSet.ipRules[].action": exactly("Allow"),
        "sasPolicy.expirationAction": exactly("Log"),
        "sku.name": among(
            lambda s: (
                f"Standard_{s.storage.default_redundancy}",
                f"Premium_{s.storage.data_redundancy}",
            ),
            "of the redundancy of the stack's settings",
        ),
    },
    VAULT: {
        "properties.enablePurgeProtection": DECIDED_ELSEWHERE,
        "properties.sku.family": exactly("A"),
        "properties.sku.name": exactly("standard"),
        "vaultName": ANYTHING,
    },
    WORKSPACE: {
        "friendlyName": ANYTHING,
        "identity": DECIDED_ELSEWHERE,
        "imageBuildCompute": DECIDED_ELSEWHERE,
        "kind": exactly("Default"),
        "managedNetwork.enableNetworkMonitor": exactly(value=False),
        "primaryUserAssignedIdentity": DECIDED_ELSEWHERE,
        "serverlessComputeSettings.serverlessComputeCustomSubnet": only_if(
            lambda s: s.nodes is None, ANYTHING
        ),
        "sku": exactly({"name": "Basic", "tier": "Basic"}),
        "workspaceName": ANYTHING,
    },
    "monitor:DiagnosticSetting": {
        "logs": DECIDED_ELSEWHERE,
        "metrics[].category": optional(one_of("AllMetrics", "Transaction")),
        "metrics[].enabled": optional(exactly(value=True)),
        "name": ANYTHING,
        "resourceUri": ANYTHING,
    },
    "network:FlowLog": {
        "flowLogName": ANYTHING,
        "format": exactly({"type": "JSON", "version": 2}),
        "networkWatcherName": as_set(lambda s: f"NetworkWatcher_{s.location}"),
        "targetResourceId": ANYTHING,
    },
    "network:NatGateway": STANDARD
    | {
        "idleTimeoutInMinutes": exactly(10),
        "natGatewayName": ANYTHING,
        "publicIpAddresses": DECIDED_ELSEWHERE,
    },
    "network:NetworkSecurityGroup": {
        "networkSecurityGroupName": ANYTHING,
        **{
            f"securityRules[].{one}": DECIDED_ELSEWHERE
            for one in (
                "access",
                "description",
                "destinationAddressPrefix",
                "destinationAddressPrefixes",
                "destinationPortRange",
                "destinationPortRanges",
                "direction",
                "sourceAddressPrefix",
                "sourceAddressPrefixes",
            )
        },
        **{f"securityRules[].{one}": ANYTHING for one in ("name", "priority", "protocol")},
        "securityRules[].sourcePortRange": exactly("*"),
    },
    "network:PrivateDnsZoneGroup": {
        "privateDnsZoneConfigs": PRESENT,
        "privateDnsZoneConfigs[].name": ANYTHING,
        "privateDnsZoneGroupName": DEFAULT,
        "privateEndpointName": ANYTHING,
    },
    "network:PrivateEndpoint": {
        "customNetworkInterfaceName": ANYTHING,
        "privateEndpointName": ANYTHING,
        "privateLinkServiceConnections": DECIDED_ELSEWHERE,
        "subnet": DECIDED_ELSEWHERE,
    },
    "network:PublicIPAddress": STANDARD
    | {"publicIPAllocationMethod": exactly("Static"), "publicIpAddressName": ANYTHING},
    "network:ServiceEndpointPolicy": {
        "serviceEndpointPolicyDefinitions": PRESENT,
        "serviceEndpointPolicyDefinitions[].name": one_of("machine-learning", "own-accounts"),
        "serviceEndpointPolicyDefinitions[].service": one_of("Global", "Microsoft.Storage"),
        "serviceEndpointPolicyName": ANYTHING,
    },
    "privatedns:PrivateZone": {},
    "privatedns:VirtualNetworkLink": {
        "virtualNetworkLinkName": ANYTHING,
    },
    "storage:BlobServiceProperties": {
        "blobServicesName": DEFAULT,
        "cors.corsRules[].allowedHeaders": exactly(["*"]),
        "cors.corsRules[].allowedMethods": exactly(
            ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "PATCH"]
        ),
        "cors.corsRules[].exposedHeaders": exactly(["*"]),
        "cors.corsRules[].maxAgeInSeconds": exactly(1800),
        "isVersioningEnabled": exactly(value=False),
    },
    "storage:FileServiceProperties": {"fileServicesName": DEFAULT},
    "storage:ManagementPolicy": {"managementPolicyName": DEFAULT},
}
"""What no rule on security, data or cost decides on, of the trunk. `DECIDED_ELSEWHERE` and
`ANYTHING` state that an input is known, and leave its value to other rules."""

AS_DECLARED = table_rule(
    "as-declared",
    "Tiers, kinds, formats and switches are those that the platform was reviewed with.",
    "Restore the input; or change the table of this rule, in a commit that says why.",
    TABLE,
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
    homes = [re.escape(one.lower().rstrip("/")) for one in _named_in(settings)]
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


def _named_in(tree: Any) -> Iterator[str]:
    """Yield every id that the settings name."""
    if isinstance(tree, str):
        if tree.startswith("/subscriptions/"):
            yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _named_in(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _named_in(value)
    elif is_dataclass(tree) and not isinstance(tree, type):
        for one in fields(tree):
            yield from _named_in(getattr(tree, one.name))


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

RULES: Final = (AS_DECLARED, IN_PLACE, NOTHING_IGNORED, OWN_IDS, OWN_SUBSCRIPTION)
