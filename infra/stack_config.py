"""Settings of the stack that Pulumi is running: the only reader of its configuration."""

import json
import typing
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from infra.settings import Settings, load


def from_stack() -> Settings:
    """Settings of the current stack, from its Pulumi.<stack>.yaml.

    Raises:
        SettingsError: with every problem of the configuration.
    """
    config = get_config_env() | CONFIG.get()
    return load(decode(config, pulumi.get_project()) | {"stack": pulumi.get_stack()})


def decode(config: Mapping[str, Any], project: str) -> dict[str, object]:
    """The project's own keys, as data: the engine hands every value over as text, and JSON is what
    stands for lists, groups, numbers and switches. Text that should be one of these and is not
    stays text, so that `load` can say what is wrong with it.
    """
    hints = typing.get_type_hints(Settings)
    found: dict[str, object] = {}
    for key, value in config.items():
        namespace, _, name = key.rpartition(":")
        if namespace == project:
            found[name] = value if hints.get(name) is str else _parsed(value)
    return found


def _parsed(value: Any) -> object:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value
