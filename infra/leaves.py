"""The leaves of the platform, a row each."""

import dataclasses
import importlib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from infra.leaf import Leaf
from infra.outputs import Profile
from infra.settings import Settings

ROWS: Final[tuple[str, ...]] = (
    "jump_machine",
    "managed_network",
    "monitor_link",
    "customer_keys",
    "replicas",
    "budget",
    "alerts",
    "scientist_role",
)

LEAVES: Final[tuple[Leaf, ...]] = tuple(
    importlib.import_module(f"infra.extras.{row}.leaf").LEAF for row in ROWS
)
TYPES: Final[Mapping[str, str]] = {
    kind: path for leaf in LEAVES for kind, path in leaf.types.items()
}
PRICES: Final = tuple(Path(__file__).parent / "extras" / row / "prices.json" for row in ROWS)
"""Prices of the leaves' resources, a file each."""


def _composed() -> type[Settings]:
    """Return the settings of a stack with the groups of the leaves."""
    own = typing.get_type_hints(Settings)
    profiles = (*typing.get_args(Profile), *(profile for leaf in LEAVES for profile in leaf.nodes))
    parts: dict[str, list[type]] = {}
    for leaf in LEAVES:
        for key, group in leaf.groups.items():
            parts.setdefault(key, []).append(group)
    default: Any = dataclasses.field(default="private", kw_only=True)
    added: list[tuple[str, Any, Any]] = [("profile", Literal[profiles], default)]
    for key, groups in parts.items():
        bases = (*reversed(groups), *([own[key]] if key in own else []))
        group = groups[0] if len(bases) == 1 else _merged(key, bases)
        optional = all(
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
            for field in dataclasses.fields(group)
        )
        default = dataclasses.field(default_factory=group, kw_only=True)
        added.append((key, group, default if optional else dataclasses.field(kw_only=True)))
    return typing.cast(
        "type[Settings]",
        dataclasses.make_dataclass(
            "StackSettings", added, bases=(Settings,), frozen=True, namespace={"leaves": LEAVES}
        ),
    )


def _merged(key: str, bases: tuple[type, ...]) -> type:
    return dataclasses.make_dataclass(f"{key.title()}Settings", [], bases=bases, frozen=True)


SETTINGS: Final = _composed()
"""Class of the settings of a stack, of the trunk and of all leaves."""
