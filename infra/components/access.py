"""Access: identities and their role assignments, with least privilege."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization, managedidentity

from infra.catalog import resource_ids, roles
from infra.components.base import Component, StackContext
from infra.naming import IdentityRole
from infra.settings import PeopleSettings


@dataclass(frozen=True)
class Principal:
    """A principal to assign roles to."""

    label: str
    """Short and stable name: the assignment's name is derived from it."""
    id: pulumi.Input[str]
    type: authorization.PrincipalType = authorization.PrincipalType.SERVICE_PRINCIPAL
    """Always set: without it Azure looks the principal up in a directory that may not show it yet,
    and fails with PrincipalNotFound."""


@dataclass(frozen=True)
class Scope:
    """A resource to assign roles on."""

    label: str
    id: pulumi.Input[str]

    @property
    def subscription(self) -> str | None:
        """Subscription of a resource that existed before; None for one of the stack."""
        return resource_ids.parts(self.id)[0] if isinstance(self.id, str) else None


def grant(
    context: StackContext,
    principal: Principal,
    scope: Scope,
    role_ids: Sequence[str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Assign roles to a principal on a scope.

    The names of assignments are known before anything is deployed. A principal that is recreated
    keeps them, and Azure rejects a duplicate name, so the old assignment is deleted first.

    Args:
        context: Context of the stack.
        principal: Principal that gets the roles.
        scope: Resource that the roles apply to.
        role_ids: GUIDs of the roles.
        opts: Options of the assignments.
    """
    options = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True))
    subscription = scope.subscription or context.subscription
    return [
        authorization.RoleAssignment(
            f"{principal.label}-{scope.label}-{roles.NAMES[role].lower().replace(' ', '-')}",
            role_assignment_name=context.names.role_assignment(
                f"{context.subscription}/{scope.label}", principal.label, role
            ),
            principal_id=principal.id,
            principal_type=principal.type,
            role_definition_id=roles.definition_id(subscription, role),
            scope=scope.id,
            opts=options,
        )
        for role in role_ids
    ]


class Identities(Component):
    """One user-assigned identity per duty, so that no job holds permissions that only another
    needs.

    Training only reads the data; preparation writes them; the build identity pushes images and has
    no access to data. A system-assigned identity would only exist once the workspace does, too late
    to get roles before it.
    """

    def __init__(
        self,
        context: StackContext,
        identity_roles: list[IdentityRole],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("identities", opts)
        self.by_role = {
            role: managedidentity.UserAssignedIdentity(
                f"identity-{role}",
                resource_name_=context.names.identity(role),
                resource_group_name=context.group,
                location=context.region,
                tags=context.tags,
                opts=self.child_options(),
            )
            for role in identity_roles
        }
        self.register_outputs({})

    def principal(self, role: IdentityRole) -> Principal:
        """Return the identity of a duty as a principal for role assignments."""
        return Principal(role, self.by_role[role].principal_id)


@dataclass(frozen=True)
class Scopes:
    """The resources that roles are assigned on."""

    default_storage: Scope
    data_storage: Scope
    vault: Scope
    registry: Scope
    insights: Scope | None
    """None if there is no Application Insights."""
    default_endpoints: Sequence[Scope]
    """Private endpoints of the default account, which the studio looks up."""


JOB_ROLES: Mapping[str, tuple[str, ...]] = {
    "default_storage": (roles.BLOB_DATA_CONTRIBUTOR,),
    "vault": (roles.KEY_VAULT_SECRETS_USER,),
    "registry": (roles.ACR_PULL,),
    "insights": (roles.MONITORING_METRICS_PUBLISHER,),
}
"""Roles of every cluster's identity: to write logs and results, to pull images, and to read the
credentials that a high-business-impact workspace passes to its nodes through the vault."""

IDENTITY_ROLES: Mapping[IdentityRole, Mapping[str, tuple[str, ...]]] = {
    "workspace": {
        "default_storage": (
            roles.CONTRIBUTOR,
            roles.BLOB_DATA_CONTRIBUTOR,
            roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR,
        ),
        "data_storage": (roles.BLOB_DATA_READER,),
        "vault": (roles.CONTRIBUTOR, roles.KEY_VAULT_ADMINISTRATOR),
        "registry": (roles.CONTRIBUTOR,),
        "insights": (roles.CONTRIBUTOR,),
    },
    "training": {**JOB_ROLES, "data_storage": (roles.BLOB_DATA_READER,)},
    "preparation": {**JOB_ROLES, "data_storage": (roles.BLOB_DATA_CONTRIBUTOR,)},
    "build": {**JOB_ROLES, "registry": (roles.ACR_PULL, roles.ACR_PUSH)},
}
"""Roles by identity and scope. Azure Machine Learning requires the workspace's identity to be
Contributor on the resources the workspace uses ("Set up service authentication"). The training data
account is not one of them: only data roles are assigned on it."""


class Access(Component):
    """Role assignments that must exist before the workspace."""

    def __init__(
        self,
        context: StackContext,
        identities: Identities,
        scopes: Scopes,
        publishers: str | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("access", opts)
        self.assignments: dict[IdentityRole, list[pulumi.Resource]] = {}
        for identity_role, scope_roles in IDENTITY_ROLES.items():
            principal = identities.principal(identity_role)
            self.assignments[identity_role] = [
                assignment
                for scope, role_ids in scope_roles.items()
                if getattr(scopes, scope) is not None
                for assignment in grant(
                    context, principal, getattr(scopes, scope), role_ids, self.child_options()
                )
            ]
        workspace_identity = identities.principal("workspace")
        for endpoint in scopes.default_endpoints:
            self.assignments["workspace"] += grant(
                context, workspace_identity, endpoint, [roles.READER], self.child_options()
            )
        if publishers is not None:
            grant(
                context,
                entra_group("publishers", publishers),
                scopes.data_storage,
                [roles.BLOB_DATA_CONTRIBUTOR],
                self.child_options(),
            )
        self.register_outputs({})

    @property
    def job_assignments(self) -> list[pulumi.Resource]:
        """Role assignments of the clusters' identities."""
        return [
            *self.assignments["training"],
            *self.assignments["preparation"],
            *self.assignments["build"],
        ]


class WorkspaceAccess(Component):
    """Role assignments on the workspace, and those of the people who work in it.

    Because keys are disabled, whoever opens a notebook or reads a result needs roles on the storage
    account too.
    """

    def __init__(
        self,
        context: StackContext,
        identity: Principal,
        workspace: Scope,
        scopes: Scopes,
        groups: PeopleSettings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("workspace-access", opts)
        self.assignments = grant(
            context, identity, workspace, [roles.CONTRIBUTOR], self.child_options()
        )
        if groups.scientists is not None:
            principal = entra_group("scientists", groups.scientists)
            storage = [roles.BLOB_DATA_CONTRIBUTOR, roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR]
            grant(
                context, principal, workspace, [roles.AZUREML_DATA_SCIENTIST], self.child_options()
            )
            grant(context, principal, scopes.default_storage, storage, self.child_options())
            grant(
                context,
                principal,
                scopes.data_storage,
                [roles.BLOB_DATA_READER],
                self.child_options(),
            )
        if groups.operators is not None:
            principal = entra_group("operators", groups.operators)
            grant(
                context,
                principal,
                workspace,
                [roles.AZUREML_COMPUTE_OPERATOR],
                self.child_options(),
            )
        self.register_outputs({})


def entra_group(label: str, group: str) -> Principal:
    """Return an Entra group as a principal, by its object id."""
    return Principal(label, group, authorization.PrincipalType.GROUP)
