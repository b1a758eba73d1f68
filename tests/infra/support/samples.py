"""A small stack that keeps every rule, and copies of it with one thing changed."""

from collections.abc import Mapping

from infra.catalog import roles
from infra.resources import Resource

GROUP = "/subscriptions/s/resourceGroups/rg"
PUBLISHERS = "99999999-0000-0000-0000-000000000000"
TAGS = {"owner": "vision", "cost-center": "42"}


def azure(token, name, path, inputs=None, **options):
    return Resource(
        type=f"azure-native:{token}",
        name=name,
        inputs={"resourceGroupName": "rg", **(inputs or {})},
        options=options,
        id=f"{GROUP}/providers/{path}",
    )


def account(name, kind):
    return azure(
        "storage:StorageAccount",
        f"storage-{name}",
        f"Microsoft.Storage/storageAccounts/{name}",
        {
            "accountName": name,
            "kind": kind,
            "publicNetworkAccess": "Disabled",
            "networkRuleSet": {"defaultAction": "Deny", "ipRules": []},
            "allowSharedKeyAccess": False,
            "allowBlobPublicAccess": False,
            "minimumTlsVersion": "TLS1_2",
            "enableHttpsTrafficOnly": True,
            "encryption": {"requireInfrastructureEncryption": True},
            "tags": TAGS,
        },
        protect=True,
    )


def identity(role):
    return azure(
        "managedidentity:UserAssignedIdentity",
        f"identity-{role}",
        f"Microsoft.ManagedIdentity/userAssignedIdentities/id-{role}",
        {"resourceName": f"id-{role}", "tags": TAGS},
    )


def assignment(name, role, scope, identity_role=None):
    """For the identity of that role, or else for the publishers."""
    who = identity(identity_role) if identity_role else None
    return azure(
        "authorization:RoleAssignment",
        name,
        f"Microsoft.Authorization/roleAssignments/{name}",
        {
            "principalId": f"principal-{identity_role}" if who else PUBLISHERS,
            "principalType": "ServicePrincipal" if who else "Group",
            "roleDefinitionId": f"/subscriptions/s/providers/X/roleDefinitions/{role}",
            "scope": scope,
        },
        **({"dependsOn": [who.key]} if who else {}),
    )


def rule(direction, priority, access, source):
    return {
        "name": f"{access.lower()}-{direction.lower()}",
        "priority": priority,
        "direction": direction,
        "access": access,
        "protocol": "*",
        "sourceAddressPrefix": source,
        "destinationAddressPrefix": "*",
        "destinationPortRange": "*",
    }


def diagnostics(name, uri):
    return azure(
        "monitor:DiagnosticSetting",
        f"diagnostics-{name}",
        f"Microsoft.Insights/diagnosticSettings/{name}",
        {
            "resourceUri": uri,
            "workspaceId": f"{GROUP}/providers/Microsoft.OperationalInsights/workspaces/logs",
            "logs": [{"categoryGroup": "allLogs", "enabled": True}],
        },
    )


DATA = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/mldata"
DEFAULT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/mldefault"
WORKSPACE = f"{GROUP}/providers/Microsoft.MachineLearningServices/workspaces/ml"
REGISTRY = f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/mlacr"
VAULT = f"{GROUP}/providers/Microsoft.KeyVault/vaults/kv"
ADDRESS = f"{GROUP}/providers/Microsoft.Network/publicIPAddresses/nat-ip"

STACK = [
    Resource("platform:index:Network", "network", {}, {}, ""),
    Resource(
        "azure-native:resources:ResourceGroup",
        "group",
        {"resourceGroupName": "rg", "tags": TAGS},
        {},
        GROUP,
    ),
    identity("training"),
    identity("preparation"),
    account("mldefault", "StorageV2"),
    account("mldata", "BlockBlobStorage"),
    azure(
        "storage:BlobContainer",
        "data-prepared",
        "Microsoft.Storage/storageAccounts/mldata/blobServices/default/containers/prepared",
        {"accountName": "mldata", "containerName": "prepared", "publicAccess": "None"},
    ),
    azure(
        "containerregistry:Registry",
        "registry",
        "Microsoft.ContainerRegistry/registries/mlacr",
        {
            "registryName": "mlacr",
            "sku": {"name": "Premium"},
            "publicNetworkAccess": "Disabled",
            "adminUserEnabled": False,
            "anonymousPullEnabled": False,
            "tags": TAGS,
        },
        protect=True,
    ),
    azure(
        "keyvault:Vault",
        "vault",
        "Microsoft.KeyVault/vaults/kv",
        {
            "vaultName": "kv",
            "properties": {
                "publicNetworkAccess": "disabled",
                "networkAcls": {"defaultAction": "Deny"},
                "enableRbacAuthorization": True,
                "enableSoftDelete": True,
                "enablePurgeProtection": True,
            },
            "tags": TAGS,
        },
        protect=True,
    ),
    azure(
        "machinelearningservices:Workspace",
        "workspace",
        "Microsoft.MachineLearningServices/workspaces/ml",
        {
            "workspaceName": "ml",
            "hbiWorkspace": True,
            "v1LegacyMode": False,
            "publicNetworkAccess": "Disabled",
            "systemDatastoresAuthMode": "Identity",
            "storageAccount": DEFAULT,
            "tags": TAGS,
        },
        protect=True,
    ),
    azure(
        "machinelearningservices:Compute",
        "gpu",
        "Microsoft.MachineLearningServices/workspaces/ml/computes/gpu",
        {
            "computeName": "gpu",
            "properties": {
                "disableLocalAuth": True,
                "properties": {
                    "vmSize": "Standard_ND40rs_v2",
                    "vmPriority": "LowPriority",
                    "enableNodePublicIp": False,
                    "remoteLoginPortPublicAccess": "Disabled",
                    "subnet": {"id": f"{GROUP}/providers/Microsoft.Network/x/subnets/training"},
                    "scaleSettings": {
                        "minNodeCount": 0.0,
                        "maxNodeCount": 2.0,
                        "nodeIdleTimeBeforeScaleDown": "PT120S",
                    },
                },
            },
            "tags": TAGS,
        },
    ),
    azure(
        "machinelearningservices:Datastore",
        "prepared",
        "Microsoft.MachineLearningServices/workspaces/ml/datastores/prepared",
        {
            "name": "prepared",
            "properties": {
                "accountName": "mldata",
                "containerName": "prepared",
                "credentials": {"credentialsType": "None"},
            },
        },
    ),
    azure(
        "operationalinsights:Workspace",
        "logs",
        "Microsoft.OperationalInsights/workspaces/logs",
        {"features": {"disableLocalAuth": True}, "tags": TAGS},
    ),
    azure(
        "applicationinsights:Component",
        "insights",
        "Microsoft.Insights/components/insights",
        {"disableLocalAuth": True, "tags": TAGS},
    ),
    azure(
        "network:VirtualNetwork",
        "network",
        "Microsoft.Network/virtualNetworks/vnet",
        {
            "subnets": [
                {
                    "name": "snet-training",
                    "addressPrefix": "10.0.0.0/24",
                    "networkSecurityGroup": {"id": "nsg"},
                    "defaultOutboundAccess": False,
                }
            ],
            "tags": TAGS,
        },
    ),
    azure(
        "network:NetworkSecurityGroup",
        "nsg",
        "Microsoft.Network/networkSecurityGroups/nsg",
        {
            "securityRules": [
                rule("Inbound", 100, "Allow", "VirtualNetwork"),
                rule("Inbound", 4096, "Deny", "*"),
                rule("Outbound", 4096, "Deny", "*"),
            ],
            "tags": TAGS,
        },
    ),
    azure(
        "network:PublicIPAddress",
        "nat-address",
        "Microsoft.Network/publicIPAddresses/nat-ip",
        {"publicIpAddressName": "nat-ip", "tags": TAGS},
    ),
    azure(
        "network:NatGateway",
        "nat",
        "Microsoft.Network/natGateways/nat",
        {"publicIpAddresses": [{"id": ADDRESS}], "tags": TAGS},
    ),
    assignment("training-data-read", roles.BLOB_DATA_READER, DATA, "training"),
    assignment("preparation-data-write", roles.BLOB_DATA_CONTRIBUTOR, DATA, "preparation"),
    assignment("publishers-data-write", roles.BLOB_DATA_CONTRIBUTOR, f"{DATA}/blobServices/x"),
    assignment("training-default-write", roles.BLOB_DATA_CONTRIBUTOR, DEFAULT, "training"),
    diagnostics("workspace", WORKSPACE),
    diagnostics("vault", VAULT.upper()),
    diagnostics("registry", REGISTRY),
    diagnostics("default", f"{DEFAULT}/blobServices/default"),
    diagnostics("data", f"{DATA}/blobServices/default"),
    azure(
        "consumption:Budget",
        "budget",
        "Microsoft.Consumption/budgets/budget",
        {
            "scope": GROUP,
            "notifications": {
                "spent": {"enabled": True, "thresholdType": "Actual", "contactEmails": ["a@b.c"]},
                "coming": {
                    "enabled": True,
                    "thresholdType": "Forecasted",
                    "contactEmails": ["a@b.c"],
                },
            },
        },
    ),
]


def changed(name, path, setting, stack=STACK):
    """The stack with one input of the resource of that name set, or left out for None."""
    keys = path.split(".")
    found = [resource.name for resource in stack if not resource.type.startswith("platform:")]
    assert found.count(name) == 1, f"{name} is {found.count(name)} times in the sample"
    return [
        Resource(one.type, one.name, with_input(one.inputs, keys, setting), one.options, one.id)
        if one.name == name and one.id
        else one
        for one in stack
    ]


def without(name, stack=STACK):
    return [resource for resource in stack if resource.name != name]


def with_input(tree, keys, setting):
    """Inputs with one of them set, or left out for None."""
    key, *deeper = keys
    if isinstance(tree, list):
        index = int(key)
        return [
            with_input(one, deeper, setting) if number == index else one
            for number, one in enumerate(tree)
        ]
    assert isinstance(tree, Mapping)
    if deeper:
        return {**tree, key: with_input(tree[key], deeper, setting)}
    rest = {one: found for one, found in tree.items() if one != key}
    return rest if setting is None else {**rest, key: setting}
