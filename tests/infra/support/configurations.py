"""Configurations of a stack, and their faults."""

from typing import Any

import pytest

from infra.errors import SettingsError
from infra.stack_config import assign, configuration, with_subscription
from infra.validation import load
from tests.infra.support.stacks import file_of

STACKS = ("dev", "prod")
"""Those of the repository, and of the tests."""
SUBSCRIPTION = "/subscriptions/00000000-0000-4000-8000-000000000000"
TENANT = "11111111-0000-4000-8000-000000000000"
GROUP = f"{SUBSCRIPTION}/resourceGroups/hub"
NETWORK = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hub"
STORAGE = f"{GROUP}/providers/Microsoft.Storage/storageAccounts"
VAULT = f"{GROUP}/providers/Microsoft.KeyVault/vaults/hub"
"""Identifiers of what someone else has."""


def configured(*changes: tuple[str, object]) -> dict[str, Any]:
    """The smallest configuration that is valid, with values at dotted keys."""
    values: dict[str, Any] = {
        "stack": "dev",
        "prefix": "hvd",
        "location": "westeurope",
        "tags": {"owner": "team", "cost-center": "42"},
        "subscription": {"id": SUBSCRIPTION.rpartition("/")[2], "tenant": TENANT},
        "budget": {"amount": 500, "start": "2026-12-01", "emails": ["team@example.com"]},
    }
    for key, value in changes:
        values = assign(values, key, value)
    return values


def problems(*changes: tuple[str, object]) -> tuple[str, ...]:
    """All that is wrong with the smallest configuration after these changes."""
    with pytest.raises(SettingsError) as caught:
        load(configured(*changes))
    return caught.value.problems


def problem(*changes: tuple[str, object]) -> str:
    """The one thing that is wrong."""
    (only,) = problems(*changes)
    return only


def stack_file(stack: str) -> dict[str, Any]:
    """The configuration of a stack of the tests."""
    return with_subscription(configuration(stack, file_of(stack))[1]) | {"stack": stack}
