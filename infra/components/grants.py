"""Role assignments: to whom, on what, and whether the stack makes them or the owner."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization

from infra.catalog import resource_ids, role_conditions, roles
from infra.components.base import StackContext


@dataclass(frozen=True)
class Principal:
    """A principal to assign roles to."""

    label: str
    """Short and stable name: the assignment's name is derived from it."""
    id: pulumi.Input[str]
    type: authorization.PrincipalType = authorization.PrincipalType.SERVICE_PRINCIPAL
    """Always set: without it Azure looks the principal up in a directory that may not show it yet,
    and fails with PrincipalNotFound."""
    identity: pulumi.Input[str] = ""
    """Id of the identity; empty for a group of people."""


@dataclass(frozen=True)
class Scope:
    """A resource to assign roles on."""

    label: str
    id: pulumi.Input[str]
    ready: Sequence[pulumi.Resource] = ()
    """Resources that must exist before a role is assigned on it, as its id does not refer to
    them."""
    account_subscription: str | None = None
    """Subscription of the account that a container is in, if the account existed before."""

    def container(
        self, label: str, name: pulumi.Input[str], ready: Sequence[pulumi.Resource] = ()
    ) -> "Scope":
        """Return one blob container of this account as a scope."""
        id_ = pulumi.Output.concat(self.id, "/blobServices/default/containers/", name)
        return Scope(label, id_, [*self.ready, *ready], self.subscription)

    @property
    def subscription(self) -> str | None:
        """Subscription of a resource that existed before; None for one of the stack."""
        if isinstance(self.id, str):
            return resource_ids.parts(self.id)[0]
        return self.account_subscription


def grant(
    context: StackContext,
    principal: Principal,
    scope: Scope,
    role_ids: Sequence[str],
    opts: pulumi.ResourceOptions,
    condition: str | None = None,
) -> list[pulumi.Resource]:
    """Assign roles to a principal on a scope, or wait for the assignments of the subscription's
    owner.

    The names of assignments are known before anything is deployed. A principal that is recreated
    keeps them, and Azure rejects a duplicate name, so the old assignment is deleted first.

    Args:
        context: Context of the stack.
        principal: Principal that gets the roles.
        scope: Resource that the roles apply to.
        role_ids: GUIDs of the roles.
        opts: Options of the assignments.
        condition: Condition of the assignments, if any.
    """
    subscription = scope.subscription or context.subscription
    if not context.assigns:
        return [
            found
            for role in role_ids
            for found in _await_assignment(context, principal, scope, role, opts, condition)
        ]
    options = pulumi.ResourceOptions.merge(
        opts,
        pulumi.ResourceOptions(delete_before_replace=True, depends_on=list(scope.ready) or None),
    )
    return [
        authorization.RoleAssignment(
            _label(principal, scope, role),
            role_assignment_name=_name(context, principal, scope, role),
            principal_id=principal.id,
            principal_type=principal.type,
            role_definition_id=roles.definition_id(subscription, role),
            scope=scope.id,
            condition=condition,
            condition_version=role_conditions.VERSION if condition else None,
            opts=options,
        )
        for role in role_ids
    ]


def entra_group(label: str, group: str) -> Principal:
    """Return an Entra group as a principal, by its object id."""
    return Principal(label, group, authorization.PrincipalType.GROUP)


def _await_assignment(
    context: StackContext,
    principal: Principal,
    scope: Scope,
    role: str,
    opts: pulumi.ResourceOptions,
    condition: str | None,
) -> list[pulumi.Resource]:
    """Add an assignment to those that the owner of the subscription makes; return it as Azure has
    it. Nothing waits for the roles of people, so these are not read.

    Reading fails while the assignment is missing, which ends the deployment before the first
    resource that needs it.
    """
    name = _name(context, principal, scope, role)
    context.roles.append(
        {
            "name": name,
            "label": _label(principal, scope, role),
            "principal_id": principal.id,
            "principal_type": principal.type.value,
            "identity": principal.identity,
            "role": roles.NAMES[role],
            "role_id": role,
            "scope": scope.id,
            "condition": condition or "",
        }
    )
    if principal.type != authorization.PrincipalType.SERVICE_PRINCIPAL:
        return []
    id_ = pulumi.Output.concat(
        scope.id, "/providers/Microsoft.Authorization/roleAssignments/", name
    )
    wait = pulumi.ResourceOptions(depends_on=list(scope.ready) or None)
    return [
        authorization.RoleAssignment.get(
            _label(principal, scope, role), id_, pulumi.ResourceOptions.merge(opts, wait)
        )
    ]


def _label(principal: Principal, scope: Scope, role: str) -> str:
    return f"{principal.label}-{scope.label}-{roles.NAMES[role].lower().replace(' ', '-')}"


def _name(context: StackContext, principal: Principal, scope: Scope, role: str) -> str:
    return context.names.role_assignment(
        f"{context.subscription}/{scope.label}", principal.label, role
    )
