"""Rules on service configuration: what can only be set at creation, and scaling to zero."""

from collections.abc import Iterator

from infra.resources import (
    COMPUTE,
    CONTAINER,
    LOGS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
)
from infra.rules.expected import (
    as_set,
    exactly,
    shown,
    table_rule,
    violated,
)
from infra.rules.rule import ResourceRule
from infra.settings import Settings

HIGH_BUSINESS_IMPACT = table_rule(
    "high-business-impact",
    "The workspace is marked high business impact: Microsoft collects less diagnostic data, and "
    "the nodes' scratch disks are encrypted and wiped.",
    "Set it when the workspace is created: Azure cannot change hbiWorkspace later.",
    {
        WORKSPACE: {
            "hbiWorkspace": exactly(value=True),
            "v1LegacyMode": exactly(value=False),
            "managedNetwork.isolationMode": exactly("Disabled"),
            "enableDataIsolation": as_set(
                lambda s: bool(s.storage.existing_default or s.vault.existing)
            ),
        }
    },
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

CLUSTERS_REST_AT_ZERO = table_rule(
    "clusters-rest-at-zero",
    "Every cluster scales down to zero nodes.",
    "Set minNodeCount to 0; an idle node is billed by the hour.",
    {COMPUTE: {"properties.properties.scaleSettings.minNodeCount": exactly(0)}},
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

RULES = (
    HIGH_BUSINESS_IMPACT,
    AS_BUDGETED,
    CLUSTERS_REST_AT_ZERO,
    PURGE_PROTECTION,
    PROTECTED,
)
