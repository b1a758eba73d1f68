"""The posture of a stack, from its settings."""

import os
from pathlib import Path

from infra.policies.rule import Posture
from infra.settings import Settings
from infra.stack_config import configuration, from_stack, with_subscription
from infra.validation import REQUIRED_TAGS, load

PRODUCTION = "prod"
"""Stack that must obey production's rules whatever its settings are."""

STACK_VARIABLES = frozenset({"PULUMI_PROJECT", "PULUMI_STACK", "PULUMI_DRY_RUN"})
"""Variables that tell a policy pack which stack Pulumi previews or updates."""

CONFIG_FILE = "PULUMI_OPTION_CONFIG_FILE"
"""Variable with the value of `--config-file`, for every command that has the option."""


def of_stack(name: str) -> Posture:
    """Return the posture of the stack that the policy pack checks.

    The settings come from Pulumi, or from the stack's file if Pulumi passes none: `pulumi policy
    analyze` reads a state only.

    Raises:
        SettingsError: the settings are wrong.
        ValueError: there is no such stack.
    """
    if os.environ.keys() >= STACK_VARIABLES:
        return posture(from_stack())
    file = os.environ.get(CONFIG_FILE)
    _, values = configuration(name, Path(file) if file else None)
    return posture(load(with_subscription(values) | {"stack": name}))


def posture(settings: Settings) -> Posture:
    """Return the posture that a stack with these settings must have."""
    publishers = settings.people.publishers
    return Posture(
        profile=settings.profile,
        production=settings.protect or settings.stack == PRODUCTION,
        tags=frozenset(REQUIRED_TAGS),
        publishers=frozenset({publishers} if publishers else ()),
        preparation=settings.names.identity("preparation"),
        addresses=frozenset(settings.allowed_addresses),
    )
