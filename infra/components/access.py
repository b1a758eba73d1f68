"""Access: identities, and who may do what, on nothing more than it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization, managedidentity

from infra.catalog import roles
from infra.components.base import Component, StackContext
from infra.naming import IdentityRole
from infra.settings import PeopleSettings


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
    context: StackContext,
    principal: Principal,
    scope: Scope,
    role_ids: Sequence[str],
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
            role_assignment_name=context.names.role_assignment(
                f"{context.subscription}/{scope.label}", principal.label, role
            ),
            principal_id=principal.id,
            principal_type=principal.type,
            role_definition_id=roles.definition_id(context.subscription, role),
            scope=scope.id,
            opts=options,
        )
        for role in role_ids
    ]


class Identities(Component):
    """One user-assigned identity a duty, so that no job holds what another needs.

    Training only reads the data; preparation writes them; images are pushed by the build identity,
    which sees no data. The service's own identity would only exist with the workspace, too late to
    be given roles before it.
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
        """Who is given the roles of a duty."""
        return Principal(role, self.by_role[role].principal_id)


@dataclass(frozen=True)
class Scopes:
    """What roles are given on."""

    default_storage: Scope
    data_storage: Scope
    vault: Scope
    registry: Scope
    insights: Scope | None
    """None where there is no Application Insights."""
    default_endpoints: Sequence[Scope]
    """Endpoints of the default account, which the studio looks up."""


JOB_ROLES: Mapping[str, tuple[str, ...]] = {
    "default_storage": (roles.BLOB_DATA_CONTRIBUTOR,),
    "vault": (roles.KEY_VAULT_SECRETS_USER,),
    "registry": (roles.ACR_PULL,),
    "insights": (roles.MONITORING_METRICS_PUBLISHER,),
}
"""Of every cluster's identity: logs and results out, images in, and the credentials that a
high-business-impact workspace hands to its nodes through the vault."""

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
"""Roles by identity and scope. Azure Machine Learning wants its workspace's identity to contribute
to what the workspace is made of ("Set up service authentication"), which the training data are not
part of: that account is reached by roles on its data alone."""


class Access(Component):
    """The roles that exist before the workspace."""

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
        """The roles of the clusters' identities."""
        return [
            *self.assignments["training"],
            *self.assignments["preparation"],
            *self.assignments["build"],
        ]


class WorkspaceAccess(Component):
    """The roles on the workspace, and what people need who work in it.

    Without keys, whoever opens a notebook or reads a result needs roles on the account behind it.
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
    """A group of Entra, by its object id."""
    return Principal(label, group, authorization.PrincipalType.GROUP)
