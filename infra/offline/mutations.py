"""Hold the rules against changed stacks: `python -m infra.offline.mutations`.

For every input that matters for security, cost or recovery, the run removes it, flips it, widens it
or sets it to somebody else's; it adds inputs, entries and resources that open something; and it
removes resources that guard something. Each mutation names the rule that must catch it. The table
that it prints is the one in docs/platform.md; the exit status is 1 if too few are caught.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from infra.catalog import roles
from infra.offline.render import render
from infra.policies import pack
from infra.policies.rule import ResourceRule
from infra.resources import Resource
from infra.settings import Settings
from infra.stack_config import assign, configuration, with_subscription
from infra.validation import load

MOST: Final = 5
"""Most mutations of one input, so that no input counts for more than the others."""

CAUGHT: Final = 0.97
"""Least share of mutations that the expected rules must catch."""

ELSEWHERE: Final = "/subscriptions/99999999-9999-9999-9999-999999999999/resourceGroups/elsewhere"
STRANGER: Final = "99999999-9999-9999-9999-999999999999"
IDENTITY: Final = f"{ELSEWHERE}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/other"
STORAGE: Final = f"{ELSEWHERE}/providers/Microsoft.Storage/storageAccounts/elsewhere"
NETWORK: Final = f"{ELSEWHERE}/providers/Microsoft.Network/virtualNetworks/elsewhere"
SUBNET: Final = f"{NETWORK}/subnets/open"
LOGS: Final = f"{ELSEWHERE}/providers/Microsoft.OperationalInsights/workspaces/elsewhere"
VAULT: Final = f"{ELSEWHERE}/providers/Microsoft.KeyVault/vaults/elsewhere"
ACCESS_ADMINISTRATOR: Final = "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9"
KEY: Final = "https://elsewhere.vault.azure.net/keys/key"


STACK: Final = "prod"
OVERRIDES: Final[Mapping[str, object]] = {
    "profile": "allowlisted",
    "allowed_addresses": ["52.174.12.7"],
    "encryption.customer_managed_keys": True,
    "monitoring.application_insights": True,
    "monitoring.private_link": True,
    "network.jump_subnet": True,
    "network.peer_with": [f"{ELSEWHERE}/providers/Microsoft.Network/virtualNetworks/hub"],
    "network.peer_address_spaces": ["10.0.0.0/16"],
    "people.publishers": STRANGER[:-1] + "1",
    "people.scientists": STRANGER[:-1] + "2",
    "people.operators": STRANGER[:-1] + "3",
    "vault.purge_protection": True,
}
"""The stack that is mutated: production with everything declared."""

HARMLESS: Final[Mapping[str, str]] = {
    "nsg-build: securityRules[0].destinationPortRange = '0-65535'": "it means what * means",
    "nsg-endpoints: securityRules[0].destinationPortRange = '0-65535'": "it means what * means",
}
"""Mutations that no rule catches, and why that is no harm."""


class Absent:
    """The input is removed."""


FLIP: Final = (False, True, Absent)
"""Values of a switch; the one that it has is left out."""

OPEN: Final = ("Enabled", Absent)
RETENTION: Final = (0, 1, Absent)
"""Shorter than any stack keeps deleted data or logs."""

INPUTS: Final[Mapping[str, Mapping[str, Mapping[str, tuple[Any, ...]]]]] = {
    "storage:StorageAccount": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "networkRuleSet.defaultAction": ("Allow", Absent),
            "networkRuleSet.bypass": ("Logging", "AzureServices, Logging, Metrics"),
            "networkRuleSet.ipRules[].iPAddressOrRange": ("0.0.0.0/0", "20.0.0.0/8", "203.0.113.7"),
            "networkRuleSet.virtualNetworkRules": ([{"virtualNetworkResourceId": SUBNET}],),
            "networkRuleSet.resourceAccessRules": ([{"resourceId": LOGS, "tenantId": STRANGER}],),
        },
        "no-keys": {
            "allowSharedKeyAccess": FLIP,
            "allowBlobPublicAccess": FLIP,
            "isLocalUserEnabled": FLIP,
            "isSftpEnabled": FLIP,
            "isNfsV3Enabled": (True,),
            "defaultToOAuthAuthentication": FLIP,
        },
        "tls-1-2": {
            "minimumTlsVersion": ("TLS1_0", "TLS1_1", Absent),
            "enableHttpsTrafficOnly": FLIP,
        },
        "encrypted": {
            "encryption.requireInfrastructureEncryption": FLIP,
            "encryption.keySource": ("Microsoft.Storage", "Microsoft.Keyvault", Absent),
            "encryption.services.blob.enabled": FLIP,
            "encryption.keyVaultProperties.keyVaultUri": ("https://elsewhere.vault.azure.net/",),
            "identity.userAssignedIdentities": ([IDENTITY],),
        },
        "no-copies-outside": {
            "allowCrossTenantReplication": FLIP,
            "allowedCopyScope": ("All", Absent),
            "sasPolicy.sasExpirationPeriod": ("365.00:00:00", Absent),
        },
        "only-reviewed": {"immutableStorageWithVersioning.enabled": (True,)},
    },
    "storage:BlobContainer": {
        "no-public-endpoint": {"publicAccess": ("Blob", "Container", Absent)},
        "no-copies-outside": {"accountName": ("elsewhere",)},
    },
    "storage:BlobServiceProperties": {
        "recoverable": {
            "deleteRetentionPolicy.enabled": FLIP,
            "deleteRetentionPolicy.days": RETENTION,
            "deleteRetentionPolicy.allowPermanentDelete": (True,),
            "containerDeleteRetentionPolicy.enabled": FLIP,
            "containerDeleteRetentionPolicy.days": RETENTION,
        },
        "no-copies-outside": {
            "cors.corsRules[].allowedOrigins": (["*"], ["https://elsewhere.example"]),
        },
    },
    "storage:FileServiceProperties": {
        "recoverable": {
            "shareDeleteRetentionPolicy.enabled": FLIP,
            "shareDeleteRetentionPolicy.days": RETENTION,
        },
        "only-reviewed": {"protocolSettings.smb.versions": ("SMB2.1",)},
    },
    "storage:ManagementPolicy": {
        "recoverable": {
            "policy.rules[].definition.filters.prefixMatch": ([""], ["prepared/"], Absent),
            "policy.rules[].definition.actions.baseBlob.delete.daysAfterModificationGreaterThan": (
                0,
                1,
            ),
        },
    },
    "containerregistry:Registry": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "publicNetworkAccess": OPEN,
            "networkRuleSet": ({"defaultAction": "Allow"},),
        },
        "no-keys": {"adminUserEnabled": FLIP, "anonymousPullEnabled": FLIP},
        "no-copies-outside": {"policies.exportPolicy.status": ("enabled", Absent)},
        "recoverable": {"policies.retentionPolicy.days": (0, 1)},
        "encrypted": {
            "encryption.keyVaultProperties.keyIdentifier": (KEY,),
            "identity.userAssignedIdentities": ({IDENTITY: {}},),
        },
        "customer-managed-key": {"encryption.status": ("disabled", Absent)},
        "only-reviewed": {"policies.softDeletePolicy.status": ("disabled",)},
    },
    "keyvault:Vault": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "properties.publicNetworkAccess": OPEN,
            "properties.networkAcls.defaultAction": ("Allow", Absent),
            "properties.networkAcls.ipRules": ([{"value": "20.0.0.0/8"}],),
            "properties.networkAcls.virtualNetworkRules": ([{"id": SUBNET}],),
        },
        "no-keys": {
            "properties.enableRbacAuthorization": FLIP,
            "properties.accessPolicies": ([{"objectId": STRANGER, "tenantId": STRANGER}],),
            "properties.tenantId": (STRANGER,),
            "properties.enabledForDeployment": FLIP,
            "properties.enabledForDiskEncryption": FLIP,
            "properties.enabledForTemplateDeployment": FLIP,
        },
        "recoverable": {
            "properties.enableSoftDelete": FLIP,
            "properties.softDeleteRetentionInDays": RETENTION,
            "properties.createMode": ("recover",),
        },
        "purge-protection": {"properties.enablePurgeProtection": FLIP},
    },
    "keyvault:Key": {
        "encrypted": {
            "properties.kty": ("EC", Absent),
            "properties.keySize": (1024, 2048, Absent),
            "properties.keyOps": (["sign"], ["wrapKey", "unwrapKey", "decrypt"]),
            "properties.attributes.exportable": (True,),
            "properties.rotationPolicy.lifetimeActions[].action.type": ("notify", Absent),
        },
    },
    "machinelearningservices:Workspace": {
        "own-region": {"location": ("eastus", Absent)},
        "high-business-impact": {
            "hbiWorkspace": FLIP,
            "v1LegacyMode": FLIP,
            "managedNetwork.isolationMode": ("AllowInternetOutbound", Absent),
            "enableDataIsolation": FLIP,
        },
        "no-public-endpoint": {
            "publicNetworkAccess": ("Enabled", "Disabled", Absent),
            "sharedPrivateLinkResources": ([{"name": "out", "privateLinkResourceId": STORAGE}],),
        },
        "no-keys": {"systemDatastoresAuthMode": ("AccessKey", "UserDelegationSAS", Absent)},
        "nodes-without-public-address": {
            "serverlessComputeSettings.serverlessComputeNoPublicIP": FLIP
        },
        "nodes-in-their-subnet": {
            "serverlessComputeSettings.serverlessComputeCustomSubnet": (SUBNET, Absent)
        },
        "no-copies-outside": {
            "storageAccount": (STORAGE, Absent),
            "keyVault": (VAULT, Absent),
            "containerRegistry": (f"{ELSEWHERE}/registries/elsewhere", Absent),
        },
        "identity-of-duty": {
            "identity.type": ("SystemAssigned", "SystemAssigned,UserAssigned"),
            "identity.userAssignedIdentities": ([IDENTITY], Absent),
            "primaryUserAssignedIdentity": (IDENTITY, Absent),
            "imageBuildCompute": ("gpu", Absent),
        },
        "encrypted": {
            "encryption.keyVaultProperties.keyIdentifier": (KEY,),
            "encryption.keyVaultProperties.keyVaultArmId": (VAULT,),
            "encryption.identity.userAssignedIdentity": (IDENTITY,),
        },
        "customer-managed-key": {"encryption.status": ("Disabled", Absent)},
        "only-reviewed": {
            "ipAllowlist": (["0.0.0.0/0"],),
            "allowRoleAssignmentOnRG": (True,),
            "featureStoreSettings.computeRuntime": ({"sparkRuntimeVersion": "3"},),
        },
    },
    "machinelearningservices:Compute": {
        "own-region": {"location": ("eastus", Absent)},
        "no-keys": {
            "properties.disableLocalAuth": FLIP,
            "properties.properties.userAccountCredentials": ({"adminUserName": "root"},),
        },
        "nodes-without-public-address": {
            "properties.properties.enableNodePublicIp": FLIP,
            "properties.properties.remoteLoginPortPublicAccess": ("Enabled", Absent),
        },
        "nodes-in-their-subnet": {"properties.properties.subnet.id": (SUBNET, Absent)},
        "clusters-as-set": {
            "properties.properties.scaleSettings.maxNodeCount": (500, Absent),
            "properties.properties.vmSize": ("Standard_ND96asr_v4", Absent),
            "properties.properties.vmPriority": ("Dedicated", "LowPriority", Absent),
        },
        "clusters-rest-at-zero": {
            "properties.properties.scaleSettings.minNodeCount": (1, Absent),
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": (
                "P1D",
                "120",
                Absent,
            ),
        },
        "identity-of-duty": {
            "identity.userAssignedIdentities": ([IDENTITY], Absent),
            "identity.type": ("SystemAssigned", "None"),
        },
        "only-reviewed": {"properties.properties.virtualMachineImage.id": (STORAGE,)},
    },
    "machinelearningservices:Datastore": {
        "no-keys": {
            "properties.credentials.credentialsType": ("AccountKey", "Sas", Absent),
            "properties.serviceDataAccessAuthIdentity": ("None", Absent),
        },
        "tls-1-2": {"properties.protocol": ("http",)},
        "no-copies-outside": {
            "properties.accountName": ("elsewhere",),
            "properties.endpoint": ("elsewhere.example",),
        },
    },
    "operationalinsights:Workspace": {
        "own-region": {"location": ("eastus", Absent)},
        "no-public-endpoint": {
            "publicNetworkAccessForIngestion": ("Enabled", "Disabled", Absent),
            "publicNetworkAccessForQuery": ("Disabled", Absent),
        },
        "no-keys": {"features.disableLocalAuth": FLIP},
        "recoverable": {
            "retentionInDays": (7, Absent),
            "workspaceCapping.dailyQuotaGb": (0.023,),
        },
        "only-reviewed": {"features.immediatePurgeDataOn30Days": (True,)},
    },
    "applicationinsights:Component": {
        "no-keys": {"disableLocalAuth": FLIP},
        "no-public-endpoint": {"publicNetworkAccessForIngestion": ("Enabled", "Disabled", Absent)},
        "no-copies-outside": {"workspaceResourceId": (LOGS, Absent)},
    },
    "monitor:PrivateLinkScopedResource": {"no-copies-outside": {"linkedResourceId": (LOGS,)}},
    "monitor:DiagnosticSetting": {
        "no-copies-outside": {
            "workspaceId": (LOGS, Absent),
            "storageAccountId": (STORAGE,),
            "eventHubAuthorizationRuleId": (f"{ELSEWHERE}/eventhubs/elsewhere",),
        },
        "diagnostics": {
            "logs": ([], [{"category": "Other", "enabled": True}]),
            "logs[].enabled": FLIP,
            "resourceUri": (STORAGE,),
        },
    },
    "monitor:ActionGroup": {
        "alerts": {
            "enabled": FLIP,
            "emailReceivers": ([], [{"name": "x", "emailAddress": "stranger@example.net"}]),
        },
        "only-reviewed": {"webhookReceivers": ([{"serviceUri": "https://elsewhere.example"}],)},
    },
    "monitor:ScheduledQueryRule": {
        "alerts-on": {
            "enabled": FLIP,
            "severity": (4, Absent),
            "evaluationFrequency": ("P1D", Absent),
            "muteActionsDuration": ("P1D",),
            "scopes": ([LOGS],),
            "criteria.allOf[].failingPeriods.minFailingPeriodsToAlert": (6,),
        },
        "alerts": {
            "actions.actionGroups": ([], [f"{ELSEWHERE}/actionGroups/other"], Absent),
            "criteria.allOf[].threshold": (1_000_000, Absent),
            "criteria.allOf[].operator": ("LessThan", Absent),
            "criteria.allOf[].timeAggregation": ("Minimum",),
            "criteria.allOf[].metricMeasureColumn": ("Other",),
            "criteria.allOf[].query": ("AmlRunStatusChangedEvent | where false", Absent),
        },
    },
    "consumption:Budget": {
        "budget-present": {
            "amount": (1_000_000, Absent),
            "timeGrain": ("Annually", Absent),
            "timePeriod.endDate": ("2027-01-01T00:00:00Z",),
            "filter": ({"tags": {"name": "team", "values": ["other"]}},),
            "scope": (ELSEWHERE,),
            "notifications": ({}, Absent),
            "notifications.*.enabled": FLIP,
            "notifications.*.threshold": (1000, Absent),
            "notifications.*.operator": ("LessThan", Absent),
            "notifications.*.contactEmails": ([], ["stranger@example.net"]),
        },
    },
    "authorization:RoleAssignment": {
        "no-owner": {
            "roleDefinitionId": (
                f"/roleDefinitions/{roles.OWNER}",
                f"/roleDefinitions/{ACCESS_ADMINISTRATOR}",
                f"/roleDefinitions/{roles.BLOB_DATA_OWNER}",
            ),
        },
        "principal-types": {"principalType": (Absent, "User")},
        "least-privilege": {
            "scope": (
                f"/subscriptions/{STRANGER}",
                ELSEWHERE,
                STORAGE,
                "/",
            ),
            "principalId": (STRANGER,),
        },
        "only-reviewed": {"condition": ("@Resource[x] StringEquals 'y'",)},
    },
    "network:VirtualNetwork": {
        "closed-subnets": {
            "subnets[].networkSecurityGroup": (
                Absent,
                {"id": f"{ELSEWHERE}/networkSecurityGroups/open"},
            ),
            "subnets[].defaultOutboundAccess": FLIP,
            "subnets[].addressPrefix": ("10.0.0.0/8",),
            "subnets[].serviceEndpointPolicies": (Absent, [{"id": f"{ELSEWHERE}/policies/open"}]),
            "subnets[].serviceEndpoints": ([{"service": "Microsoft.Sql"}],),
            "subnets[].natGateway": ({"id": f"{ELSEWHERE}/natGateways/elsewhere"},),
            "subnets[].privateEndpointNetworkPolicies": ("Enabled", Absent),
        },
        "own-network": {
            "addressSpace.addressPrefixes": (["10.0.0.0/8"], ["10.64.0.0/23", "172.16.0.0/12"]),
            "virtualNetworkPeerings[].remoteVirtualNetwork.id": (NETWORK,),
            "virtualNetworkPeerings[].allowGatewayTransit": FLIP,
            "virtualNetworkPeerings[].useRemoteGateways": FLIP,
            "dhcpOptions.dnsServers": (["8.8.8.8"],),
            "subnets[].routeTable": ({"id": f"{ELSEWHERE}/routeTables/elsewhere"},),
            "subnets[].delegations": ([{"serviceName": "Microsoft.Web/serverFarms"}],),
        },
    },
    "network:NetworkSecurityGroup": {
        "closed-network-rules": {
            "securityRules[].access": ("Allow",),
            "securityRules[].sourceAddressPrefix": ("Internet", "0.0.0.0/1", "20.0.0.0/8", "*"),
            "securityRules[].destinationAddressPrefix": ("Internet", "Storage", "10.0.0.0/8"),
            "securityRules[].destinationPortRange": ("*", "0-65535"),
            "securityRules": ([],),
        },
        "only-reviewed": {"securityRules[].sourceApplicationSecurityGroups": ([{"id": NETWORK}],)},
    },
    "network:PrivateEndpoint": {
        "private-endpoints": {
            "subnet.id": (SUBNET,),
            "privateLinkServiceConnections[].privateLinkServiceId": (STORAGE, Absent),
            "privateLinkServiceConnections[].groupIds": (["queue"], []),
        },
        "own-network": {
            "manualPrivateLinkServiceConnections": ([{"privateLinkServiceId": STORAGE}],)
        },
    },
    "network:PrivateDnsZoneGroup": {
        "own-network": {
            "privateDnsZoneConfigs[].privateDnsZoneId": (
                f"{ELSEWHERE}/providers/Microsoft.Network/privateDnsZones/elsewhere.example",
                Absent,
            )
        },
    },
    "network:ServiceEndpointPolicy": {
        "no-copies-outside": {
            "serviceEndpointPolicyDefinitions[].serviceResources": (
                [STORAGE],
                ["/subscriptions/00000000-0000-0000-0000-000000000000"],
                [ELSEWHERE],
            )
        },
    },
    "network:NatGateway": {"no-public-address": {"publicIpAddresses": ([],)}},
    "privatedns:PrivateZone": {"own-network": {"privateZoneName": ("example.com",)}},
    "privatedns:VirtualNetworkLink": {
        "own-network": {"registrationEnabled": FLIP, "virtualNetwork.id": (NETWORK, Absent)},
    },
    "monitor:PrivateLinkScope": {
        "own-network": {"accessModeSettings.queryAccessMode": ("PrivateOnly", Absent)}
    },
    "resources:ResourceGroup": {"required-tags": {"tags": ({}, {"owner": ""}, Absent)}},
}
"""Values that an input is set to, by kind of resource, by the rule that must catch it, and by path.
A value that the input has already is no mutation."""

REMOVED: Final = {
    "consumption:Budget": "budget-present",
    "monitor:ScheduledQueryRule": "alerts",
    "monitor:ActionGroup": "alerts",
    "monitor:DiagnosticSetting": "diagnostics",
    "network:PrivateEndpoint": "private-endpoints",
    "network:NatGateway": "no-public-address",
}
"""Resources that guard something, and the rule that must miss them."""

PROTECTED: Final = (
    "storage:StorageAccount",
    "keyvault:Vault",
    "containerregistry:Registry",
    "machinelearningservices:Workspace",
)
"""Resources whose protect option is switched off."""

ADDED: Final[Sequence[tuple[str, str, Mapping[str, Any]]]] = (
    ("no-public-address", "network:PublicIPAddress", {"publicIpAddressName": "open"}),
    ("only-reviewed", "network:BastionHost", {"bastionHostName": "open"}),
    ("only-reviewed", "network:VirtualNetworkPeering", {"remoteVirtualNetwork": {"id": NETWORK}}),
    ("only-reviewed", "network:SecurityRule", {"access": "Allow", "direction": "Inbound"}),
    ("only-reviewed", "network:Subnet", {"name": "open"}),
    ("only-reviewed", "storage:LocalUser", {"username": "stranger"}),
    ("only-reviewed", "storage:ObjectReplicationPolicy", {"destinationAccount": STORAGE}),
    ("only-reviewed", "keyvault:Secret", {"secretName": "password"}),
    ("only-reviewed", "containerregistry:ScopeMap", {"actions": ["repositories/x/content/read"]}),
    ("only-reviewed", "containerregistry:Token", {"status": "enabled"}),
    ("only-reviewed", "managedidentity:FederatedIdentityCredential", {"subject": "repo:x/y"}),
    ("only-reviewed", "authorization:RoleDefinition", {"permissions": [{"actions": ["*"]}]}),
    ("only-reviewed", "machinelearningservices:WorkspaceConnection", {"connectionName": "out"}),
    ("only-reviewed", "machinelearningservices:OnlineEndpoint", {"endpointName": "open"}),
    ("closed-network-rules", "network:NetworkSecurityGroup", {"networkSecurityGroupName": "open"}),
    (
        "identity-of-duty",
        "machinelearningservices:Compute",
        {"computeName": "extra", "identity": {"userAssignedIdentities": [IDENTITY]}},
    ),
    ("no-group-lock", "authorization:ManagementLockByScope", {"scope": ELSEWHERE}),
)
"""Resources that are added: the rule that must catch each, its kind and its inputs."""


@dataclass(frozen=True)
class Mutation:
    """One change of a stack."""

    rule: str
    """Name of the rule that must catch it."""
    kind: str
    change: str
    """The resource and the change, such as `vault: properties.sku.name = "premium"`."""
    resources: Sequence[Resource]
    """The changed stack."""


@dataclass(frozen=True)
class Outcome:
    """What the rules found in a mutated stack."""

    mutation: Mutation
    found: frozenset[str]
    """Names of the rules that were violated."""

    @property
    def caught(self) -> bool:
        return self.mutation.rule in self.found


def mutations(resources: Sequence[Resource]) -> Iterator[Mutation]:
    """Yield the mutations of a stack: at most `MOST` of each input, spread over its resources."""
    for kind, rules in INPUTS.items():
        declared = [resource for resource in resources if resource.kind == kind]
        for rule, paths in rules.items():
            for path, values in paths.items():
                yield from _spread(
                    [
                        Mutation(rule, kind, f"{resource.name}: {at}", _swap(resources, other))
                        for resource in declared
                        for at, tree in changed(resource.inputs, path.split("."), values)
                        for other in [replace(resource, inputs=tree)]
                    ]
                )
    for kind, rule in REMOVED.items():
        yield from _spread(
            [
                Mutation(
                    rule,
                    kind,
                    f"{resource.name}: removed",
                    [other for other in resources if other is not resource],
                )
                for resource in resources
                if resource.kind == kind
            ]
        )
    for resource in resources:
        if resource.kind in PROTECTED and resource.options.get("protect"):
            bare = replace(resource, options={**resource.options, "protect": False})
            change = f"{resource.name}: protect = False"
            yield Mutation("protected", resource.kind, change, _swap(resources, bare))
    for rule, kind, inputs in ADDED:
        extra = Resource(f"azure-native:{kind}", "extra", inputs, {}, f"{ELSEWHERE}/extra")
        yield Mutation(rule, kind, "extra: added", [*resources, extra])


def _spread(candidates: Sequence[Mutation]) -> Sequence[Mutation]:
    """Return at most `MOST` of the mutations, in even steps."""
    if len(candidates) <= MOST:
        return candidates
    return [candidates[index * len(candidates) // MOST] for index in range(MOST)]


def changed(tree: Any, keys: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield copies of an input with one value changed at a path, each with a description."""
    key, *deeper = keys
    name = key.removesuffix("[]")
    if not isinstance(tree, Mapping):
        return
    current: Any
    for one in list(tree) if name == "*" else [name]:
        current = tree.get(one)
        if key.endswith("[]"):
            for index, item in enumerate(current or ()):
                for text, new in changed(item, deeper, values) if deeper else ():
                    items = [*current[:index], new, *current[index + 1 :]]
                    yield f"{one}[{index}].{text}", {**tree, one: items}
        elif deeper:
            for text, new in changed(current or {}, deeper, values):
                yield f"{one}.{text}", {**tree, one: new}
        else:
            yield from _set(tree, one, values)


def _set(tree: Mapping[str, Any], key: str, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for value in values:
        if value is Absent:
            if key in tree:
                yield f"{key} removed", {one: tree[one] for one in tree if one != key}
        elif tree.get(key) != value and (values is not FLIP or key in tree):
            yield f"{key} = {value!r}", {**tree, key: value}


def _swap(resources: Sequence[Resource], other: Resource) -> list[Resource]:
    return [other if resource.key == other.key else resource for resource in resources]


def run(stack: str, overrides: Mapping[str, object]) -> list[Outcome]:
    """Hold the rules against every mutation of a stack.

    Raises:
        ValueError: the unchanged stack breaks a rule already.
    """
    # A render lists the resources in the order of their registration, which varies.
    resources = sorted(render(stack, overrides), key=lambda resource: resource.key)
    settings = _settings(stack, overrides)
    broken = pack.check(resources, settings)
    if broken:
        raise ValueError(f"the unchanged stack {stack} breaks a rule: {broken[0].message}")
    unchanged = {id(resource) for resource in resources}
    outcomes = []
    for mutation in mutations(resources):
        new = [resource for resource in mutation.resources if id(resource) not in unchanged]
        found = {
            rule.name
            for rule in pack.ALL
            # Rules on single resources have passed the unchanged ones already.
            if any(
                rule.check(new if isinstance(rule, ResourceRule) else mutation.resources, settings)
            )
        }
        outcomes.append(Outcome(mutation, frozenset(found)))
    return outcomes


def _settings(stack: str, overrides: Mapping[str, object]) -> Settings:
    _, values = configuration(stack)
    for key, value in overrides.items():
        values = assign(values, key, value)
    return load(with_subscription(values) | {"stack": stack})


def table(outcomes: Sequence[Outcome]) -> str:
    """Return every rule and how many of its mutations were caught, as a Markdown table."""
    made = Counter(outcome.mutation.rule for outcome in outcomes)
    caught = Counter(outcome.mutation.rule for outcome in outcomes if outcome.caught)
    rows = [
        f"| `{rule.name}` | {rule.description} | {made[rule.name]} | {caught[rule.name]} |"
        for rule in pack.ALL
    ]
    total = f"| all | | {made.total()} | {caught.total()} |"
    head = ["| rule | what it requires | mutations | caught |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, total]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Print the table and what was not caught; return 1 if too few mutations were caught."""
    parser = argparse.ArgumentParser(prog="python -m infra.offline.mutations", description=__doc__)
    parser.parse_args(arguments)
    outcomes = run(STACK, OVERRIDES)
    print(table(outcomes), end="")
    for outcome in outcomes:
        if not outcome.caught:
            change = outcome.mutation.change
            reason = HARMLESS.get(change, f"not caught by {outcome.mutation.rule}")
            print(f"{change}: {reason}", file=sys.stderr)
    caught = sum(outcome.caught for outcome in outcomes)
    return 0 if caught >= CAUGHT * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
