"""The configuration of a stack: of the one that Pulumi is running, or from a stack's file."""

import json
import typing
from collections.abc import Mapping
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pulumi
import yaml
from pulumi.runtime.config import CONFIG, get_config_env

from infra.errors import SettingsError
from infra.leaves import SETTINGS
from infra.settings import Settings
from infra.validation import load

ROOT = Path(__file__).resolve().parents[1]
"""Folder of the project's file and the stacks' files."""
PLACEHOLDERS: Mapping[str, str] = {
    "id": "00000000-0000-0000-0000-000000000000",
    "tenant": "11111111-1111-1111-1111-111111111111",
}
"""Subscription and tenant of a stack that is not pinned yet, for commands without Azure."""


def from_stack() -> Settings:
    """Return the settings of the current stack, from its Pulumi.<stack>.yaml.

    Raises:
        SettingsError: with every problem of the configuration.
    """
    config = get_config_env() | CONFIG.get()
    return load(decode(config, pulumi.get_project()) | {"stack": pulumi.get_stack()})


def configuration(stack: str, file: Path | None = None) -> tuple[str, dict[str, Any]]:
    """Return the project's name, and a stack's configuration without the project prefix of its
    keys.

    Args:
        stack: Name of the stack.
        file: File that holds the configuration, if not the stack's own.

    Raises:
        SettingsError: the file is not a stack's file.
        ValueError: there is no such stack.
    """
    name = project()
    file = file or ROOT / f"Pulumi.{stack}.yaml"
    if not file.exists():
        known = sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))
        raise ValueError(f"unknown stack {stack!r}; choose one of {', '.join(known)}")
    config = _config(file)
    own = {
        key.removeprefix(f"{name}:"): value
        for key, value in config.items()
        if key.startswith(f"{name}:")
    }
    return name, own


def _config(file: Path) -> dict[str, Any]:
    """Return the keys and values of a stack's file; an empty one has none.

    Raises:
        SettingsError: the file is not YAML of keys and values.
    """
    try:
        data = _dates_as_texts(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError([f"{file.name} is not YAML: {error}"]) from None
    config = {} if data is None else data.get("config") if isinstance(data, dict) else data
    if not isinstance(config, dict | None):
        raise SettingsError([f"{file.name}: write `config:`, and below it a line for each key"])
    return config or {}


def _dates_as_texts(data: Any) -> Any:
    """Return YAML's data with dates as the engine reads them."""
    if isinstance(data, dict):
        return {key: _dates_as_texts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_dates_as_texts(value) for value in data]
    return f"{data} 00:00:00 +0000 UTC" if isinstance(data, date) else data


def project() -> str:
    """Return the project's name, which the keys of its configuration begin with."""
    return str(yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["name"])


def assign(values: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """Return a copy of the values with the value at a dotted key replaced."""
    changed: dict[str, Any] = deepcopy(dict(values))
    *groups, last = key.split(".")
    inner = changed
    for group in groups:
        if not isinstance(inner.get(group), dict):
            inner[group] = {}
        inner = inner[group]
    inner[last] = value
    return changed


def with_subscription(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with placeholders for a missing subscription and tenant."""
    given = values.get("subscription", {})
    if not isinstance(given, Mapping):
        # `load` reports it.
        return dict(values)
    return {**values, "subscription": {**PLACEHOLDERS, **given}}


def decode(config: Mapping[str, Any], project: str) -> dict[str, object]:
    """Decode the project's own keys: the engine passes every value as text, with JSON for lists,
    objects, numbers and booleans. Text that should be one of these and is not stays text, so that
    `load` can report its fault.
    """
    hints = typing.get_type_hints(SETTINGS)
    values: dict[str, object] = {}
    for key, value in config.items():
        namespace, _, name = key.rpartition(":")
        if namespace == project:
            values[name] = value if hints.get(name) is str else _parsed(value)
    return values


def encode(value: object) -> str:
    """Encode a value of a stack's file as the engine passes it to a program."""
    return value if isinstance(value, str) else json.dumps(value)


def _parsed(value: Any) -> object:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value
