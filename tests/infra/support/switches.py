"""Switches of a stack that may meet in any pair, and the stacks in which they do."""

from collections.abc import Iterable
from typing import Any

from tests.infra.support.variants import (
    DATA,
    DEFAULT,
    FIREWALL,
    HUB,
    JUMP,
    KEYS,
    LOGS,
    MANAGED,
    NETWORK,
    OPTIONS,
    OWN_GROUP,
    REGISTRY,
    SPOKE,
    THEIRS,
    VAULT,
    ZONES,
)

SWITCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "roles of the owner": ("0123", {"roles": "existing"}),
    "allowlisted": ("034", OPTIONS["allowlisted"]),
    "managed network": ("15", MANAGED),
    "managed network, with a firewall": ("267", FIREWALL),
    "customer-managed keys": ("0258", KEYS),
    "service-side keys": ("02578", OPTIONS["service-side keys"]),
    "monitor private link": ("0123", OPTIONS["monitor private link"]),
    "no insights": ("0123", {"monitoring.application_insights": False}),
    "serving": ("034", {"serving": True}),
    "jump machine": ("012", JUMP),
    "people": ("0123", OPTIONS["people"]),
    "existing clusters only": ("0123", OPTIONS["scientists limited to the clusters"]),
    "spoke": ("0569", SPOKE),
    "records by policy": ("124", OPTIONS["records by policy"]),
    "peered": ("012", HUB),
    "flow logs": (
        "0245",
        {"network.flow_logs_to": f"{THEIRS}/Microsoft.Storage/storageAccounts/theirlogs"},
    ),
    "zone redundant": ("0123", OPTIONS["zone redundant"]),
    "replica": ("045678", {"registry.replicas": ["northeurope"]}),
    "their network": ("38", NETWORK | {"network.existing_dns_zones": ZONES}),
    "their default account": ("0123", {"storage.existing_default": DEFAULT}),
    "their data account": ("0123", {"storage.existing_data": DATA}),
    "their registry": ("1239", {"registry.existing": REGISTRY}),
    "their vault": ("1346", {"vault.existing": VAULT}),
    "their logs": ("0123", {"monitoring.existing_log_workspace": LOGS}),
    "their group": ("137", {"resource_group.existing": OWN_GROUP}),
    "no preparation": ("0123", {"clusters.preparation": None}),
    "no training": ("0123", {"clusters.gpu": None}),
    "no image builds": ("1", {"clusters.build": None}),
    "ended runs": ("0123", {"monitoring.ended_runs": True}),
    "no budget": ("0123", {"budget.offered": False}),
    "closed accounts": ("0123", {"storage.public_access": "denied"}),
}
"""The numbers of the stacks that have a switch, and its overrides. Each pair that the settings
accept is in a stack, and the first four stacks have 19 of 20 pairs."""
STACKS = "0123456789"


def together(names: Iterable[str]) -> dict[str, Any] | None:
    """Return the overrides of switches; None if two of them set one key to different values."""
    merged: dict[str, Any] = {}
    for name in names:
        overrides = SWITCHES[name][1]
        if any(merged.get(key, value) != value for key, value in overrides.items()):
            return None
        merged |= overrides
    return merged


def of_stack(number: str) -> dict[str, Any]:
    """Return the overrides of one of the stacks."""
    overrides = together(name for name, (stacks, _) in SWITCHES.items() if number in stacks)
    assert overrides is not None
    return overrides
