"""What Pulumi's engine registered, as `infra.render.render` tells what is declared."""

from unittest.mock import ANY

from infra.render.mocks import guid, plain
from infra.resources import Resource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""How the engine writes values that it cannot know before their resource exists."""
NOT_IN_A_STATE = ("deleteBeforeReplace", "import")
"""Options that the engine does not keep."""
_PROVIDER = "pulumi:providers:"
_OF_PROVIDERS = ("__internal", "version")
"""Inputs that the engine adds to a provider."""
_HOOKS = {"BeforeUpdate": "before_update"}


def registered(rows):
    """The resources of a state, or of a preview's steps, as rendered ones by type and name.

    Identities and the workspace have the GUIDs that rendering makes up for them. A value that a
    preview does not know yet is equal to anything, if it is made of another resource's outputs.
    """
    own = [row for row in rows if not _is_the_engines(row)]
    made_up = {
        row["outputs"][key]: guid(f"{row['id']}/{key.removesuffix('Id')}")
        for row in own
        if row["type"].endswith(":UserAssignedIdentity")
        for key in ("principalId", "clientId")
        if row.get("outputs", {}).get(key, UNKNOWN) != UNKNOWN
    }
    made_up |= {
        row["outputs"]["workspaceId"]: guid(row["id"])
        for row in own
        if row["type"] == "azure-native:machinelearningservices:Workspace"
        and row.get("outputs", {}).get("workspaceId", UNKNOWN) != UNKNOWN
    }
    found = (
        Resource(
            row["type"],
            _name(row["urn"]),
            _inputs(row, made_up) if row["custom"] else {},
            _options(row),
            _id(row["type"], _replaced(row.get("id", ""), made_up)),
        )
        for row in own
    )
    return {resource.key: resource for resource in found}


def declared(resources):
    """Rendered resources, with the values that a state has of them."""
    kept = (
        Resource(
            one.type,
            one.name,
            one.inputs,
            {key: value for key, value in one.options.items() if key not in NOT_IN_A_STATE},
            _id(one.type, one.id),
        )
        for one in resources
    )
    return {resource.key: resource for resource in kept}


def _is_the_engines(row):
    """Whether the engine has added a resource: the stack, and providers that nothing names."""
    default = row["type"].startswith(_PROVIDER) and _name(row["urn"]).startswith("default")
    return default or row["type"] == "pulumi:pulumi:Stack"


def _id(kind, id_):
    """The id of a resource; none of a provider, for which the engine makes it up."""
    return "" if kind.startswith(_PROVIDER) else id_


def _inputs(row, made_up):
    of_others = {name for name, urns in row.get("propertyDependencies", {}).items() if urns}
    added = _OF_PROVIDERS if row["type"].startswith(_PROVIDER) else ()
    return {
        name: _replaced(value, made_up | ({UNKNOWN: ANY} if name in of_others else {}))
        for name, value in plain(row.get("inputs", {})).items()
        if name not in added
    }


def _options(row):
    found = {
        "parent": _key(row.get("parent", "")),
        "protect": row.get("protect"),
        "dependsOn": sorted({_key(urn) for urn in row.get("dependencies", ())}),
        "deletedWith": _key(row.get("deletedWith", "")),
        "replaceOnChanges": row.get("replaceOnChanges"),
        "ignoreChanges": row.get("ignoreChanges"),
        "retainOnDelete": row.get("retainOnDelete"),
        "hooks": {_HOOKS[kind]: names for kind, names in row.get("resourceHooks", {}).items()},
    }
    return {name: value for name, value in found.items() if value}


def _key(urn):
    if not urn or urn.split("::")[2] == "pulumi:pulumi:Stack":
        return ""
    return f"{urn.split('::')[2].rsplit('$', 1)[-1]}::{_name(urn)}"


def _name(urn):
    return urn.split("::", 3)[3]


def _replaced(value, by):
    if isinstance(value, dict):
        return {key: _replaced(inner, by) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, by) for inner in value]
    if not isinstance(value, str):
        return value
    if value in by:
        return by[value]
    for guid_, other in by.items():
        if isinstance(other, str):
            value = value.replace(guid_, other)
    return value
