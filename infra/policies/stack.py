"""The settings of the stack that the policy pack checks."""

import os
from pathlib import Path

from infra.settings import Settings
from infra.stack_config import configuration, from_stack, with_subscription
from infra.validation import load

STACK_VARIABLES = frozenset({"PULUMI_PROJECT", "PULUMI_STACK", "PULUMI_DRY_RUN"})
"""Variables that tell a policy pack which stack Pulumi previews or updates."""

CONFIG_FILE = "PULUMI_OPTION_CONFIG_FILE"
"""Variable with the value of `--config-file`, for every command that has the option."""


def settings_of(name: str) -> Settings:
    """Return the settings of a stack.

    They come from Pulumi, or from the stack's file if Pulumi passes none: `pulumi policy analyze`
    reads a state only.

    Raises:
        SettingsError: the settings are wrong.
        ValueError: there is no such stack.
    """
    if os.environ.keys() >= STACK_VARIABLES:
        return from_stack()
    file = os.environ.get(CONFIG_FILE)
    _, values = configuration(name, Path(file) if file else None)
    return load(with_subscription(values) | {"stack": name})
