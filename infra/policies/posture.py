"""What the rules must know about a stack, from its settings."""

import os
from pathlib import Path

from infra.policies.rule import Posture
from infra.settings import Settings
from infra.stack_config import configuration, from_stack
from infra.validation import REQUIRED_TAGS, load

PRODUCTION = "prod"
"""Stack that is held to production's rules whatever its settings say."""

STACK_VARIABLES = frozenset({"PULUMI_PROJECT", "PULUMI_STACK", "PULUMI_DRY_RUN"})
"""Variables by which Pulumi tells a pack the stack that it previews or updates."""

CONFIG_FILE = "PULUMI_OPTION_CONFIG_FILE"
"""Variable that stands for `--config-file` of every command that has it."""


def of_stack(name: str) -> Posture:
    """The posture of the stack that a policy pack is asked about.

    Its settings are those that Pulumi gives to the pack, or the file's where it gives none:
    `pulumi policy analyze` looks at a state only.

    Raises:
        SettingsError: the settings are wrong.
        ValueError: there is no such stack.
    """
    if os.environ.keys() >= STACK_VARIABLES:
        return posture(from_stack())
    file = os.environ.get(CONFIG_FILE)
    _, values = configuration(name, Path(file) if file else None)
    return posture(load(values | {"stack": name}))


def posture(settings: Settings) -> Posture:
    """The posture that a stack of these settings must have."""
    publishers = settings.people.publishers
    return Posture(
        profile=settings.profile,
        production=settings.protect or settings.stack == PRODUCTION,
        tags=frozenset(REQUIRED_TAGS),
        publishers=frozenset({publishers} if publishers else ()),
        preparation=settings.names.identity("preparation"),
        addresses=frozenset(settings.allowed_addresses),
    )
