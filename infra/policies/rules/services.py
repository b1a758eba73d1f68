"""Rules on service configuration: what can only be set at creation, and scaling to zero."""

import re
from collections.abc import Iterator

from infra.policies.expected import (
    Expected,
    as_set,
    exactly,
    shown,
    table_rule,
    violated,
)
from infra.policies.rule import ResourceRule
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
from infra.settings import Settings

LONGEST_IDLE = 60
"""Most minutes that a node may be idle before its cluster releases it."""

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
"""ISO 8601 durations from days to seconds, as Azure accepts for idle times."""

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


def idle_minutes(duration: object) -> float | None:
    """Return the minutes of an ISO 8601 duration; None if it is not one. Azure accepts `120`
    without an error.
    """
    match = DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60


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
        ):
            yield from violated(resource, path, expected, settings)


AS_BUDGETED = ResourceRule(
    "clusters-as-set",
    "Every cluster has the size, the priority and the nodes of the stack's settings, from "
    "which the budget was planned.",
    "Change the stack's settings rather than the cluster.",
    _largest,
)

CLUSTERS_REST_AT_ZERO = table_rule(
    "clusters-rest-at-zero",
    f"Every cluster scales down to zero nodes within {LONGEST_IDLE} minutes of its last job.",
    "Set both; an idle node is billed by the hour.",
    {
        COMPUTE: {
            "properties.properties.scaleSettings.minNodeCount": exactly(0),
            "properties.properties.scaleSettings.nodeIdleTimeBeforeScaleDown": Expected(
                lambda _: f"an ISO 8601 duration of {LONGEST_IDLE} minutes at most",
                lambda given, _: (
                    (minutes := idle_minutes(given)) is not None and minutes <= LONGEST_IDLE
                ),
            ),
        }
    },
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
