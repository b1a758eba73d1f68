"""Role assignments: to whom, on what, and whether the stack makes them or the owner."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization

from infra.catalog import resource_ids, role_conditions, roles
from infra.catalog.roles import Role
from infra.components.base import Component, StackContext


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
    granted = [roles.resolve(role, context.own_roles, subscription) for role in role_ids]
    return [
        authorization.RoleAssignment(
            _label(principal, scope, role),
            role_assignment_name=_name(context, principal, scope, role),
            principal_id=principal.id,
            principal_type=principal.type,
            role_definition_id=role.definition_id,
            scope=scope.id,
            condition=condition,
            condition_version=role_conditions.VERSION if condition else None,
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    delete_before_replace=True,
                    depends_on=[*scope.ready, *_defined(context, role)] or None,
                ),
            ),
        )
        for role in granted
    ]


class OwnRoles(Component):
    """The roles that a stack defines, which are assigned in its resource group only."""

    def __init__(self, context: StackContext, group_id: pulumi.Input[str]) -> None:
        super().__init__("own-roles")
        for role in context.own_roles.values():
            context.definitions[role.id] = authorization.RoleDefinition(
                f"role-{role.label}",
                role_definition_id=role.id,
                role_name=role.name,
                permissions=[
                    authorization.PermissionArgs(
                        actions=list(role.actions), not_actions=list(role.not_actions)
                    )
                ],
                assignable_scopes=[group_id],
                scope=group_id,
                opts=self.child_options(),
            )
        self.register_outputs({})


def entra_group(label: str, group: str) -> Principal:
    """Return an Entra group as a principal, by its object id."""
    return Principal(label, group, authorization.PrincipalType.GROUP)


def _await_assignment(
    context: StackContext,
    principal: Principal,
    scope: Scope,
    guid: str,
    opts: pulumi.ResourceOptions,
    condition: str | None,
) -> list[pulumi.Resource]:
    """Add an assignment to those that the owner of the subscription makes; return it as Azure has
    it. Nothing waits for the roles of people, so these are not read.

    Reading fails while the assignment is missing, which ends the deployment before the first
    resource that needs it.
    """
    own = context.own_roles.get(guid)
    group = resource_ids.group(context.subscription, context.names.resource_group)
    role = roles.resolve(guid, context.own_roles, scope.subscription or context.subscription)
    name = _name(context, principal, scope, role)
    context.roles.append(
        {
            "name": name,
            "label": _label(principal, scope, role),
            "principal_id": principal.id,
            "principal_type": principal.type.value,
            "identity": principal.identity,
            "role": role.name,
            "role_id": role.id,
            "definition": json.dumps({"properties": own.properties(group)}) if own else "",
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


def _defined(context: StackContext, role: Role) -> list[pulumi.Resource]:
    """Return the definition that must exist before a role is assigned: none for one of Azure."""
    return [context.definitions[role.id]] if role.id in context.definitions else []


def _label(principal: Principal, scope: Scope, role: Role) -> str:
    return f"{principal.label}-{scope.label}-{role.label}"


def _name(context: StackContext, principal: Principal, scope: Scope, role: Role) -> str:
    return context.names.role_assignment(
        f"{context.subscription}/{scope.label}", principal.label, role.id
    )
