"""Types for monitoring a platform: logs, alerts and budgets."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types.resource_type import ResourceType, words

_TRACKED: Final = frozenset({"location", "tags"})
_SWITCH: Final = frozenset({"Enabled", "Disabled"})
_RECEIVERS: Final = words(
    "armRoleReceivers automationRunbookReceivers azureAppPushReceivers"
    " azureFunctionReceivers emailReceivers eventHubReceivers incidentReceivers"
    " itsmReceivers logicAppReceivers smsReceivers voiceReceivers webhookReceivers"
)

TYPES: Final[Mapping[str, ResourceType]] = {
    "operationalinsights:Workspace": ResourceType(
        "Microsoft.OperationalInsights/workspaces/{workspaceName}",
        "2023-09-01",
        inputs=_TRACKED
        | words(
            "defaultDataCollectionRuleResourceId features forceCmkForQuery identity"
            " publicNetworkAccessForIngestion publicNetworkAccessForQuery retentionInDays sku"
            " workspaceCapping"
        ),
        required=frozenset({"location"}),
        outer=_TRACKED | {"identity"},
        values={
            "publicNetworkAccessForIngestion": _SWITCH,
            "publicNetworkAccessForQuery": _SWITCH,
            "sku.name": words(
                "CapacityReservation Free LACluster PerGB2018 PerNode Premium Standalone Standard"
            ),
        },
        name_form=r"[A-Za-z0-9][A-Za-z0-9-]{2,61}[A-Za-z0-9]",
    ),
    "applicationinsights:Component": ResourceType(
        "Microsoft.Insights/components/{resourceName}",
        "2020-02-02",
        inputs=_TRACKED
        | words(
            "applicationType disableIpMasking disableLocalAuth flowType"
            " forceCustomerStorageForProfiler hockeyAppId immediatePurgeDataOn30Days"
            " ingestionMode kind publicNetworkAccessForIngestion publicNetworkAccessForQuery"
            " requestSource retentionInDays samplingPercentage workspaceResourceId"
        ),
        required=frozenset({"location", "kind", "applicationType"}),
        outer=_TRACKED | {"kind"},
        renamed={
            "applicationType": "Application_Type",
            "disableIpMasking": "DisableIpMasking",
            "disableLocalAuth": "DisableLocalAuth",
            "flowType": "Flow_Type",
            "ingestionMode": "IngestionMode",
            "requestSource": "Request_Source",
            "retentionInDays": "RetentionInDays",
            "samplingPercentage": "SamplingPercentage",
            "workspaceResourceId": "WorkspaceResourceId",
        },
        values={
            "applicationType": frozenset({"web", "other"}),
            "ingestionMode": frozenset(
                {"ApplicationInsights", "ApplicationInsightsWithDiagnosticSettings", "LogAnalytics"}
            ),
            "publicNetworkAccessForIngestion": _SWITCH,
            "publicNetworkAccessForQuery": _SWITCH,
        },
    ),
    "monitor:PrivateLinkScope": ResourceType(
        "Microsoft.Insights/privateLinkScopes/{scopeName}",
        "2023-06-01-preview",
        inputs=_TRACKED | {"accessModeSettings"},
        required=words(
            "location accessModeSettings.ingestionAccessMode accessModeSettings.queryAccessMode"
        ),
        values={
            "accessModeSettings.ingestionAccessMode": frozenset({"Open", "PrivateOnly"}),
            "accessModeSettings.queryAccessMode": frozenset({"Open", "PrivateOnly"}),
        },
    ),
    "monitor:PrivateLinkScopedResource": ResourceType(
        "Microsoft.Insights/privateLinkScopes/{scopeName}/scopedResources/{name}",
        "2023-06-01-preview",
        inputs=frozenset({"kind", "linkedResourceId", "subscriptionLocation"}),
        outer=frozenset(),
    ),
    "monitor:ActionGroup": ResourceType(
        "Microsoft.Insights/actionGroups/{actionGroupName}",
        "2024-10-01-preview",
        inputs=_TRACKED | _RECEIVERS | {"enabled", "groupShortName", "identity"},
        required=frozenset({"location", "groupShortName", "enabled"}),
        outer=_TRACKED | {"identity"},
    ),
    "monitor:ScheduledQueryRule": ResourceType(
        "Microsoft.Insights/scheduledQueryRules/{ruleName}",
        "2025-01-01-preview",
        inputs=_TRACKED
        | words(
            "actions autoMitigate checkWorkspaceAlertsStorageConfigured criteria description"
            " displayName enabled evaluationFrequency identity kind muteActionsDuration"
            " overrideQueryTimeRange resolveConfiguration scopes severity skipQueryValidation"
            " targetResourceTypes windowSize"
        ),
        required=frozenset({"location", "criteria.allOf.query", "scopes"}),
        outer=_TRACKED | {"identity", "kind"},
        values={
            "criteria.allOf.operator": words(
                "Equals GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual GreaterOrLessThan"
            ),
            "criteria.allOf.timeAggregation": frozenset(
                {"Average", "Count", "Maximum", "Minimum", "Total"}
            ),
            "severity": frozenset({0, 1, 2, 3, 4}),
        },
    ),
    "monitor:DiagnosticSetting": ResourceType(
        "Microsoft.Insights/diagnosticSettings/{name}",
        "2021-05-01-preview",
        scope="resourceUri",
        inputs=words(
            "eventHubAuthorizationRuleId eventHubName logAnalyticsDestinationType logs"
            " marketplacePartnerId metrics serviceBusRuleId storageAccountId workspaceId"
        ),
        outer=frozenset(),
    ),
    "consumption:Budget": ResourceType(
        "Microsoft.Consumption/budgets/{budgetName}",
        "2024-08-01",
        scope="scope",
        inputs=frozenset(
            {"amount", "category", "eTag", "filter", "notifications", "timeGrain", "timePeriod"}
        ),
        required=frozenset({"amount", "category", "timeGrain", "timePeriod.startDate"}),
        outer=frozenset({"eTag"}),
        values={
            "category": frozenset({"Cost", "ReservationUtilization"}),
            "timeGrain": words(
                "Monthly Quarterly Annually BillingMonth BillingQuarter BillingAnnual Last7Days"
                " Last30Days"
            ),
        },
        name_form=r"[A-Za-z0-9_-]{1,63}",
    ),
}
