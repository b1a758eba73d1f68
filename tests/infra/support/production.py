"""The production stack with everything declared, and copies of it with one thing changed."""

import dataclasses
from collections.abc import Mapping

from infra.catalog import roles
from infra.resources import Resource
from tests.infra.support.stacks import rendered, settings_of

PUBLISHERS = "99999999-0000-0000-0000-000000000000"
OVERRIDES = {"monitoring.application_insights": True, "people.publishers": PUBLISHERS}
STACK = list(rendered("prod", **OVERRIDES))
SETTINGS = settings_of("prod", **OVERRIDES)
WRITES_BLOBS = {
    roles.OWNER,
    roles.CONTRIBUTOR,
    roles.BLOB_DATA_OWNER,
    roles.BLOB_DATA_CONTRIBUTOR,
}
"""Roles whose holder can change training data, directly or through an assignment or a key."""
[GROUP] = [one.id for one in STACK if one.kind == "resources:ResourceGroup"]
DATA = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{SETTINGS.names.data_storage}"
DEFAULT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/{SETTINGS.names.default_storage}"
VAULT = f"{GROUP}/providers/Microsoft.KeyVault/vaults/{SETTINGS.names.vault}"


def azure(token, name, inputs, **options):
    return Resource(f"azure-native:{token}", name, inputs, options, f"{GROUP}/{name}")


def assignment(name, role, scope, holder=None):
    """A role for the identity of that duty, or else for the publishers."""
    identity = next((one for one in STACK if one.name == f"identity-{holder}"), None)
    principal = PUBLISHERS
    if identity is not None:
        principal = next(
            one.inputs["principalId"]
            for one in STACK
            if identity.key in one.options.get("dependsOn", ()) and "principalId" in one.inputs
        )
    return azure(
        "authorization:RoleAssignment",
        name,
        {
            "principalId": principal,
            "roleAssignmentName": name,
            "principalType": "ServicePrincipal" if identity else "Group",
            "roleDefinitionId": f"/subscriptions/s/providers/X/roleDefinitions/{role}",
            "scope": scope,
        },
        **({"dependsOn": [identity.key]} if identity else {}),
    )


def changed(name, path, setting, stack=STACK):
    """The stack with one input of the resource of that name set, or left out for None. Of a service
    and its private endpoint, which share a name, it is the service if both have the input.
    """
    keys = path.split(".")
    named = [one for one in stack if one.name == name and keys[0] in one.inputs]
    if len(named) > 1:
        named = [one for one in named if not one.kind.startswith("network:")]
    assert len(named) == 1, f"{name} with {path} is {len(named)} times in the sample"
    return [
        dataclasses.replace(one, inputs=with_input(one.inputs, keys, setting))
        if one is named[0]
        else one
        for one in stack
    ]


def without(name, stack=STACK):
    return [one for one in stack if one.name != name]


def with_input(tree, keys, setting):
    """Inputs with one of them set, or left out for None."""
    key, *deeper = keys
    if isinstance(tree, list):
        index = int(key)
        return [
            with_input(one, deeper, setting) if number == index else one
            for number, one in enumerate(tree)
        ]
    assert isinstance(tree, Mapping)
    if deeper:
        return {**tree, key: with_input(tree[key], deeper, setting)}
    rest = {one: found for one, found in tree.items() if one != key}
    return rest if setting is None else {**rest, key: setting}
