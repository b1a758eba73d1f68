"""Rules on service configuration: what can only be set at creation, and scaling to zero."""

import re
from collections.abc import Iterator

from infra.policies.rule import Posture, ResourceRule, shown, wants
from infra.resources import COMPUTE, REGISTRY, STORAGE, VAULT, WORKSPACE, Resource, input_at

LONGEST_IDLE = 60
"""Most minutes that a node may be idle before its cluster releases it."""

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
"""ISO 8601 durations from days to seconds, as Azure accepts for idle times."""


def _confidential(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind == WORKSPACE:
        yield from wants(resource, "hbiWorkspace", expected=True)
        yield from wants(resource, "v1LegacyMode", expected=False)


HIGH_BUSINESS_IMPACT = ResourceRule(
    "high-business-impact",
    "The workspace is marked high business impact: Microsoft collects less diagnostic data, and "
    "the nodes' scratch disks are encrypted and wiped.",
    "Set it when the workspace is created: Azure cannot change hbiWorkspace later.",
    _confidential,
)


def _resting(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind != COMPUTE:
        return
    scale = "properties.properties.scaleSettings."
    yield from wants(resource, scale + "minNodeCount", 0)
    idle = input_at(resource, scale + "nodeIdleTimeBeforeScaleDown")
    minutes = idle_minutes(idle)
    if minutes is None or minutes > LONGEST_IDLE:
        yield (
            f"{scale}nodeIdleTimeBeforeScaleDown is {shown(idle)} and must be an ISO 8601 "
            f"duration of {LONGEST_IDLE} minutes at most"
        )


CLUSTERS_REST_AT_ZERO = ResourceRule(
    "clusters-rest-at-zero",
    f"Every cluster scales down to zero nodes within {LONGEST_IDLE} minutes of its last job.",
    "Set both; an idle node is billed by the hour.",
    _resting,
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


def _encryption(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind == STORAGE:
        yield from wants(resource, "encryption.requireInfrastructureEncryption", expected=True)


ENCRYPTED_TWICE = ResourceRule(
    "encrypted-twice",
    "Storage has infrastructure encryption in addition to service encryption.",
    "Set it when the account is created: Azure cannot change it later.",
    _encryption,
)


def _purge(resource: Resource, posture: Posture) -> Iterator[str]:
    if resource.kind != VAULT:
        return
    yield from wants(resource, "properties.enableSoftDelete", expected=True)
    purge = input_at(resource, "properties.enablePurgeProtection")
    if posture.production and purge is not True:
        yield f"properties.enablePurgeProtection is {shown(purge)} and must be true in production"
    elif purge is False:
        yield "properties.enablePurgeProtection is false, which Azure rejects once it was true"


PURGE_PROTECTION = ResourceRule(
    "purge-protection",
    "In production a deleted vault cannot be purged before its retention period ends.",
    "Set it to true, or omit it where a vault may be purged.",
    _purge,
)


def _protected(resource: Resource, posture: Posture) -> Iterator[str]:
    if (
        posture.production
        and resource.kind in {STORAGE, VAULT, REGISTRY, WORKSPACE}
        and not resource.options.get("protect")
    ):
        yield "Pulumi's protect option is off"


PROTECTED = ResourceRule(
    "protected",
    "In production Pulumi refuses to delete or replace storage, vault, registry and workspace.",
    "Set protect in the resource's options.",
    _protected,
)

RULES = (
    HIGH_BUSINESS_IMPACT,
    CLUSTERS_REST_AT_ZERO,
    ENCRYPTED_TWICE,
    PURGE_PROTECTION,
    PROTECTED,
)
