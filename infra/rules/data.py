"""Rules on data: encryption, recovery of what was deleted by mistake, and copies elsewhere."""

from collections.abc import Callable

from infra.catalog import resource_ids
from infra.resources import (
    COMPUTE,
    DATASTORE,
    INSIGHTS,
    LOGS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
)
from infra.rules.expected import (
    UNSET,
    Expected,
    as_set,
    exactly,
    one_of,
    only_if,
    optional,
    same,
    table_rule,
)
from infra.settings import Settings

BLOBS = "storage:BlobServiceProperties"
FILES = "storage:FileServiceProperties"
AGEING = "storage:ManagementPolicy"
FLOW_LOG = "network:FlowLog"
DIAGNOSTICS = "monitor:DiagnosticSetting"

OFF, ON = exactly(value=False), exactly(value=True)

STUDIO = frozenset(
    {
        "https://mlworkspace.azure.ai",
        "https://ml.azure.com",
        "https://*.ml.azure.com",
        "https://ai.azure.com",
        "https://*.ai.azure.com",
    }
)
"""Origins of Azure Machine Learning's own pages."""


def _ages(name: str, prefixes: list[str], action: str, days: int) -> dict[str, object]:
    """Return the lifecycle rule that moves or deletes old blobs below some prefixes."""
    return {
        "name": name,
        "type": "Lifecycle",
        "enabled": True,
        "definition": {
            "actions": {"baseBlob": {action: {"daysAfterModificationGreaterThan": days}}},
            "filters": {"blobTypes": ["blockBlob"], "prefixMatch": prefixes},
        },
    }


def log_workspace(settings: Settings) -> str:
    existing = settings.monitoring.existing_log_workspace
    return resource_ids.name(existing or settings.names.log_workspace)


def by_name(*reads: Callable[[Settings], str]) -> Expected:
    """Expect the id of a resource by its name; of several, any."""
    return Expected(
        lambda s: "the id of " + " or ".join(read(s) for read in reads),
        lambda given, s: any(same(resource_ids.name(str(given)), read(s)) for read in reads),
    )


ENCRYPTED = table_rule(
    "encrypted",
    "Storage has infrastructure encryption in addition to service encryption, and services use no "
    "keys but those of the stack's settings.",
    "Set it when the resource is created: Azure cannot change infrastructure encryption later.",
    {
        STORAGE: {
            "encryption.requireInfrastructureEncryption": ON,
            "encryption.keySource": exactly("Microsoft.Storage"),
            "encryption.services.blob.enabled": ON,
            "encryption.services.file.enabled": optional(ON),
            "encryption.keyVaultProperties.keyVersion": UNSET,
            "encryption.encryptionIdentity.encryptionUserAssignedIdentity": UNSET,
            "identity.userAssignedIdentities": UNSET,
        },
        REGISTRY: {
            "identity.userAssignedIdentities": UNSET,
        },
        WORKSPACE: {
            "encryption.identity.userAssignedIdentity": UNSET,
        },
    },
)


RECOVERABLE = table_rule(
    "recoverable",
    "What is deleted by mistake can be restored, and logs are kept, for the days of the stack's "
    "settings; only logs, code and results of jobs are deleted by age.",
    "Restore the retention; to shorten it on purpose, change the stack's settings.",
    {
        BLOBS: {
            f"{policy}.{key}": expected
            for policy in ("deleteRetentionPolicy", "containerDeleteRetentionPolicy")
            for key, expected in {
                "enabled": ON,
                "days": as_set(lambda s: s.storage.soft_delete_retention_days),
                "allowPermanentDelete": optional(OFF),
            }.items()
        },
        FILES: {
            "shareDeleteRetentionPolicy.enabled": ON,
            "shareDeleteRetentionPolicy.days": as_set(
                lambda s: s.storage.soft_delete_retention_days
            ),
        },
        AGEING: {
            "policy.rules": as_set(
                lambda s: [
                    _ages(
                        "job-logs",
                        ["azureml/ExperimentRun", "snapshots", "snapshotzips"],
                        "delete",
                        s.storage.snapshot_retention_days,
                    ),
                    _ages("results", ["results/"], "tierToCool", s.storage.cool_after_days),
                ]
            ),
        },
        VAULT: {
            "properties.enableSoftDelete": ON,
            "properties.softDeleteRetentionInDays": as_set(
                lambda s: s.vault.soft_delete_retention_days
            ),
            "properties.createMode": UNSET,
        },
        REGISTRY: {
            "policies.retentionPolicy.days": as_set(lambda s: s.registry.untagged_retention_days),
        },
        LOGS: {
            "retentionInDays": as_set(lambda s: s.monitoring.retention_days),
            "workspaceCapping.dailyQuotaGb": as_set(lambda s: s.monitoring.daily_cap_gb),
        },
    },
)


HERE = as_set(lambda settings: settings.location)

OWN_REGION = table_rule(
    "own-region",
    "Data, images, logs and nodes are in the region of the stack's settings.",
    "Deploy another stack for another region.",
    {kind: {"location": HERE} for kind in (STORAGE, REGISTRY, VAULT, WORKSPACE, LOGS, COMPUTE)},
)

NO_COPIES = table_rule(
    "no-copies-outside",
    "Data, images and logs stay in the stack: no replication to other tenants, no export from the "
    "registry, no copy of it in a region that the settings do not name, no foreign page that reads "
    "blobs, and no logs sent elsewhere.",
    "Remove the way out; to use a service that exists already, name it in the stack's settings.",
    {
        STORAGE: {
            "allowCrossTenantReplication": OFF,
            "allowedCopyScope": one_of("AAD", "PrivateLink"),
            "sasPolicy.sasExpirationPeriod": exactly("1.00:00:00"),
        },
        REGISTRY: {"policies.exportPolicy.status": exactly("disabled")},
        BLOBS: {"cors.corsRules[].allowedOrigins": exactly(sorted(STUDIO))},
        DATASTORE: {
            "properties.endpoint": exactly("core.windows.net"),
        },
        DIAGNOSTICS: {
            "storageAccountId": UNSET,
            "eventHubAuthorizationRuleId": UNSET,
            "marketplacePartnerId": UNSET,
            "workspaceId": by_name(log_workspace),
        },
        WORKSPACE: {
            "applicationInsights": only_if(
                lambda s: s.monitoring.application_insights, by_name(lambda s: s.names.insights)
            ),
        },
        FLOW_LOG: {
            "storageId": as_set(lambda s: s.network.flow_logs_to or ""),
            "enabled": ON,
        },
        INSIGHTS: {"workspaceResourceId": by_name(log_workspace)},
    },
)

RULES = (ENCRYPTED, RECOVERABLE, OWN_REGION, NO_COPIES)
