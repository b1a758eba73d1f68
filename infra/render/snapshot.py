"""Write stacks as text for a review: `python -m infra.render.snapshot` writes one file per stack.

Those of `dev` and `prod` show what the files of these stacks say, and `managed` shows a profile, on
settings that no team changes.

A snapshot leaves out what every resource repeats (group, region, tags, parent) and what follows
from something else (ids inside the group, the identity that a role is for, transitive
dependencies), so that a changed line is a change of the platform. Network rules take one line each.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pulumi

from infra.catalog import roles
from infra.errors import PlatformError
from infra.render.render import run
from infra.resources import ASSIGNMENT, GROUP, IDENTITY, Resource, of_kind, requirements
from infra.stack_config import ROOT

FOLDER = ROOT / "tests" / "infra" / "snapshots"
STACKS: Final[Mapping[str, tuple[str, Mapping[str, object], Path | None]]] = {
    "dev": ("dev", {}, None),
    "prod": ("prod", {}, None),
    "managed": (
        "dev",
        {
            "profile": "managed",
            "managed_network.accept_one_way": True,
            "managed_network.image_publishers": "33333333-3333-3333-3333-333333333336",
            "clusters.build": None,
            "people.scientists": "33333333-3333-3333-3333-333333333332",
            "people.existing_clusters_only": True,
        },
        ROOT / "tests" / "infra" / "stacks" / "dev.yaml",
    ),
}
"""Stack, further settings, and file of the settings if it is not the stack's own, by the name of
the snapshot."""
WIDTH = 100
"""Columns that a list or object may take to stay on one line."""

REPEATED = ("location", "resourceGroupName", "tags")
"""Inputs that are left out if they equal the resource group's."""


def text(name: str) -> str:
    """Return the snapshot of that name.

    Raises:
        pulumi.RunError: the settings of the stack are not valid.
        ValueError: the stack has no file.
    """
    stack, overrides, file = STACKS[name]
    return snapshot(run(stack, overrides, file).resources)


def snapshot(resources: Sequence[Resource]) -> str:
    """Return the stack as JSON: an object of resources by type and name, in that order."""
    [group] = of_kind(resources, GROUP)
    needed = requirements(resources)
    described = {
        f"{_short(resource.type)} {resource.name}": _described(resource, group, needed)
        for resource in resources
        if resource.type.startswith("azure-native:")
    }
    return "\n".join(_lines(_brief(described, group.id), 0)) + "\n"


def _brief(value: Any, group: str) -> Any:
    """Return a value with role names for GUIDs, and ids relative to the group."""
    if isinstance(value, Mapping):
        return {key: _brief(value[key], group) for key in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_brief(inner, group) for inner in value]
    if not isinstance(value, str):
        return value
    path, separator, role = value.rpartition("/roleDefinitions/")
    if separator and path and role in roles.NAMES:
        return f"ROLE {roles.NAMES[role]}"
    return value.replace(group, "GROUP")


def _described(
    resource: Resource, group: Resource, needed: Mapping[str, frozenset[str]]
) -> dict[str, Any]:
    shared = {} if resource is group else {key: group.inputs.get(key) for key in REPEATED}
    described = {
        key: resource.inputs[key]
        for key in sorted(resource.inputs)
        if key not in shared or resource.inputs[key] != shared[key]
    }
    if resource.kind == ASSIGNMENT and any(IDENTITY in key for key in _direct(resource)):
        del described["principalId"]
    if resource.kind == "network:NetworkSecurityGroup":
        described["securityRules"] = [_rule(rule) for rule in resource.inputs["securityRules"]]
    options = {
        key: _short(option) if isinstance(option, str) else option
        for key, option in sorted(resource.options.items())
        if key not in {"parent", "dependsOn"}
    }
    direct = [key for key in _direct(resource) if key != group.key]
    after = sorted(
        _short(key) for key in direct if not any(key in needed[other] for other in direct)
    )
    return (
        described | ({"options": options} if options else {}) | ({"after": after} if after else {})
    )


def _rule(rule: Mapping[str, Any]) -> str:
    source, destination, ports = (
        ",".join(rule.get(several) or [rule[one]])
        for one, several in (
            ("sourceAddressPrefix", "sourceAddressPrefixes"),
            ("destinationAddressPrefix", "destinationAddressPrefixes"),
            ("destinationPortRange", "destinationPortRanges"),
        )
    )
    return (
        f"{rule['direction']} {rule['priority']} {rule['access']} {rule['protocol']} "
        f"{source} -> {destination} {ports} ({rule['name']})"
    )


def _direct(resource: Resource) -> list[str]:
    """Return the keys of the Azure resources that one depends on directly."""
    needed = resource.options.get("dependsOn", ())
    return [key for key in needed if key.startswith("azure-native:")]


def _short(type_or_key: str) -> str:
    return type_or_key.removeprefix("azure-native:").replace("::", " ")


def _lines(value: Any, indent: int, before: str = "", after: str = "") -> Iterator[str]:
    """Format JSON so that what fits on one line is on one line."""
    pad = " " * indent
    whole = json.dumps(value)
    if not isinstance(value, dict | list) or not value:
        yield f"{pad}{before}{whole}{after}"
        return
    if indent and len(f"{pad}{before}{whole}{after}") <= WIDTH:
        yield f"{pad}{before}{whole}{after}"
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    parts = (
        [(f"{json.dumps(key)}: ", inner) for key, inner in value.items()]
        if isinstance(value, dict)
        else [("", inner) for inner in value]
    )
    yield f"{pad}{before}{opening}"
    for number, (name, inner) in enumerate(parts, 1):
        yield from _lines(inner, indent + 2, name, "," if number < len(parts) else "")
    yield f"{pad}{closing}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the snapshots of all stacks, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.snapshot", description=__doc__)
    parser.parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in STACKS:
        try:
            declared = text(name)
        except (PlatformError, pulumi.RunError, ValueError) as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return 2
        path = FOLDER / f"{name}.json"
        path.write_text(declared, encoding="utf-8")
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
