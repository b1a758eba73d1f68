"""Role assignments with names that are the same at every run."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization

from infra.catalog import roles
from infra.components.base import Place


@dataclass(frozen=True)
class Principal:
    """Who is given a role."""

    label: str
    """Short and stable: the assignment's name is derived from it."""
    id: pulumi.Input[str]
    type: authorization.PrincipalType = authorization.PrincipalType.SERVICE_PRINCIPAL
    """Set always: without it Azure looks up a principal that its directory may not show yet, and
    fails with PrincipalNotFound."""


@dataclass(frozen=True)
class Scope:
    """What a role is given on."""

    label: str
    id: pulumi.Input[str]


def grant(
    place: Place,
    principal: Principal,
    scope: Scope,
    given: Sequence[str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Give a principal roles on a scope.

    The names of assignments are known before anything is deployed. A principal that is made anew
    keeps them, and Azure refuses to have one twice: the old assignment goes first.

    Args:
        place: the stack.
        principal: who.
        scope: on what.
        given: GUIDs of the roles.
        opts: options of the assignments.
    """
    options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True))
    return [
        authorization.RoleAssignment(
            f"{principal.label}-{scope.label}-{roles.NAMES[role].lower().replace(' ', '-')}",
            role_assignment_name=place.names.role_assignment(
                f"{place.subscription}/{scope.label}", principal.label, role
            ),
            principal_id=principal.id,
            principal_type=principal.type,
            role_definition_id=roles.definition_id(place.subscription, role),
            scope=scope.id,
            opts=options,
        )
        for role in given
    ]
