"""Rules on how the services are set up: what cannot be set later, and what rests at no cost."""

import re
from collections.abc import Iterator

from infra.policies.rule import Posture, ResourceRule, shown, wants
from infra.resources import COMPUTE, REGISTRY, STORAGE, VAULT, WORKSPACE, Resource, input_at

LONGEST_IDLE = 60
"""Minutes that a node may idle before its cluster gives it back."""

DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
"""ISO 8601, whole days to seconds, as Azure takes idle times."""


def _confidential(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind == WORKSPACE:
        yield from wants(resource, "hbiWorkspace", expected=True)
        yield from wants(resource, "v1LegacyMode", expected=False)


HIGH_BUSINESS_IMPACT = ResourceRule(
    "high-business-impact",
    "The workspace is made for confidential data: less goes to Microsoft's diagnostics, and the "
    "nodes' scratch disks are encrypted and wiped.",
    "Set it when the workspace is made: Azure takes hbiWorkspace at creation only.",
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
    "Every cluster goes down to no nodes soon after its last job.",
    "Set both; a node that stays is paid for by the hour.",
    _resting,
)


def idle_minutes(duration: object) -> float | None:
    """Minutes of an ISO 8601 duration; None if it is none. Azure takes `120` without a word."""
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
    "Storage is encrypted by the infrastructure as well as by the service.",
    "Set it when the account is made: Azure takes it at creation only.",
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
        yield "properties.enablePurgeProtection is false, which Azure refuses once it was true"


PURGE_PROTECTION = ResourceRule(
    "purge-protection",
    "In production nobody can empty a deleted vault before its retention ends.",
    "Set it to true, or leave it out where a vault may be purged.",
    _purge,
)


def _protected(resource: Resource, posture: Posture) -> Iterator[str]:
    if (
        posture.production
        and resource.kind in {STORAGE, VAULT, REGISTRY, WORKSPACE}
        and not resource.options.get("protect")
    ):
        yield "Pulumi's protect is off"


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
