"""Access: identities and their role assignments.

Roles restrict what jobs on a cluster can reach, and not who may submit one: a user who may submit
jobs to the workspace can choose any of its clusters, and so acts as the identity of any of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import machinelearningservices as ml
from pulumi_azure_native import managedidentity

from infra.catalog import role_conditions, roles
from infra.components.base import Component, StackContext
from infra.components.grants import Principal, Scope, entra_group, grant
from infra.naming import DUTY_IDENTITIES, RESULTS_CONTAINER, IdentityRole
from infra.outputs import CONTEXTS_FOLDER, MODELS_FOLDER, RUNS_FOLDER
from infra.settings import PeopleSettings


class Identities(Component):
    """One user-assigned identity for the workspace and for each duty that a cluster has.

    A job acts as the identity of the cluster that it runs on. A system-assigned identity would only
    exist once the workspace does, too late to get roles before it.
    """

    def __init__(self, context: StackContext, identity_roles: list[IdentityRole]) -> None:
        super().__init__("identities")
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
        identity = self.by_role[role]
        return Principal(role, identity.principal_id, identity=identity.id)


@dataclass(frozen=True)
class Scopes:
    """The resources that roles are assigned on."""

    default_storage: Scope
    data_storage: Scope
    results: Scope
    """Container of the default account."""
    raw: Scope
    """Container of the data account, like `prepared`."""
    prepared: Scope
    vault: Scope
    registry: Scope
    insights: Scope | None
    """None if there is no Application Insights."""
    default_endpoints: Sequence[Scope]
    """Private endpoints of the default account, which the studio looks up."""


@dataclass(frozen=True)
class JobScopes:
    """The containers that Azure Machine Learning creates with a workspace, for its jobs.

    Names as in "Set up service authentication" (with data isolation) and "Data concepts"; that of
    the logs was observed.
    """

    job_logs: Scope
    """Logs, `outputs` folders and MLflow artifacts of all jobs."""
    job_outputs: Scope
    """Default datastore: build contexts, and outputs of jobs that name no other place."""

    @classmethod
    def of(
        cls,
        default_storage: Scope,
        workspace: ml.Workspace,
        ready: Sequence[pulumi.Resource],
        *,
        isolated: bool,
    ) -> "JobScopes":
        """Return the containers of a workspace.

        Args:
            default_storage: Default account of the workspace.
            workspace: The workspace; the containers exist once it does, or after its first job.
            ready: All that a first job needs.
            isolated: Whether the workspace isolates its data from those of others in its account.
        """
        logs, outputs = (
            ("{}-azureml", "{}-azureml-blobstore")
            if isolated
            else ("azureml", "azureml-blobstore-{}")
        )
        guid = workspace.workspace_id
        return cls(
            default_storage.container("job-logs", guid.apply(logs.format), ready),
            default_storage.container("job-outputs", guid.apply(outputs.format), ready),
        )


@dataclass(frozen=True)
class Grant:
    """A role on one of the scopes."""

    scope: str
    """Field of `Scopes` or `JobScopes`."""
    role: str
    condition: str | None = None


JOB_GRANTS: tuple[Grant, ...] = (
    Grant("vault", roles.KEY_VAULT_SECRETS_USER),
    Grant("registry", roles.ACR_PULL),
)
"""Roles of every cluster's identity. A high-business-impact workspace passes credentials to its
nodes through the vault. Whether a node reads them as its cluster's identity is not documented, so
the identities may read the vault's secrets."""

ALL_BUT_RESULTS = Grant(
    "default_storage",
    roles.BLOB_DATA_READER,
    role_conditions.reads_all_but(RESULTS_CONTAINER, except_below=[CONTEXTS_FOLDER]),
)
"""Reads code and build contexts, but no results. Azure Machine Learning names the containers of
code, so they cannot be listed."""

ALL_BUT_RUNS = Grant(
    "default_storage",
    roles.BLOB_DATA_READER,
    role_conditions.reads_all_but(RESULTS_CONTAINER, except_below=[CONTEXTS_FOLDER, MODELS_FOLDER]),
)
"""Reads registered models besides, which score images in batch."""

GRANTS: Mapping[IdentityRole, tuple[Grant, ...]] = {
    "workspace": (
        Grant("default_storage", roles.CONTRIBUTOR),
        Grant("default_storage", roles.BLOB_DATA_CONTRIBUTOR),
        Grant("default_storage", roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR),
        Grant("data_storage", roles.BLOB_DATA_READER),
        Grant("vault", roles.CONTRIBUTOR),
        Grant("vault", roles.KEY_VAULT_ADMINISTRATOR),
        Grant("registry", roles.CONTRIBUTOR),
        Grant("insights", roles.CONTRIBUTOR),
    ),
    "training": (
        *JOB_GRANTS,
        Grant("default_storage", roles.BLOB_DATA_READER),
        Grant("results", roles.BLOB_DATA_CONTRIBUTOR, role_conditions.writes_below(RUNS_FOLDER)),
        Grant("prepared", roles.BLOB_DATA_READER),
    ),
    "preparation": (
        *JOB_GRANTS,
        ALL_BUT_RUNS,
        Grant("raw", roles.BLOB_DATA_READER),
        Grant("prepared", roles.BLOB_DATA_CONTRIBUTOR),
    ),
    "build": (*JOB_GRANTS, ALL_BUT_RESULTS, Grant("registry", roles.ACR_PUSH)),
    "serving": (Grant("registry", roles.ACR_PULL), Grant("results", roles.BLOB_DATA_READER)),
}
"""Roles that exist before the workspace. Azure Machine Learning requires the workspace's identity
to be Contributor on the resources the workspace uses ("Set up service authentication"). The
training data account is not one of them: only data roles are assigned on it."""

_LOGS = Grant("job_logs", roles.BLOB_DATA_CONTRIBUTOR)
_OUTPUTS = Grant(
    "job_outputs", roles.BLOB_DATA_CONTRIBUTOR, role_conditions.writes_below("azureml")
)
"""Default outputs are below `azureml/`; the SDK's build contexts are elsewhere in the container."""

LATE_GRANTS: Mapping[IdentityRole, tuple[Grant, ...]] = {
    "training": (_LOGS, _OUTPUTS),
    "preparation": (_LOGS, _OUTPUTS),
    "build": (_LOGS,),
}
"""Roles on what exists only once the workspace does."""


class Access(Component):
    """Role assignments that must exist before the workspace."""

    def __init__(
        self,
        context: StackContext,
        identities: Identities,
        scopes: Scopes,
        people: PeopleSettings,
        of_workspace: Sequence[Grant] = (),
    ) -> None:
        super().__init__("access")
        granted = {**GRANTS, "workspace": (*GRANTS["workspace"], *of_workspace)}
        self.assignments = {
            identity_role: _assign(
                context, identities.principal(identity_role), scopes, grants, self.child_options()
            )
            for identity_role, grants in granted.items()
            if identity_role in identities.by_role
        }
        workspace_identity = identities.principal("workspace")
        for endpoint in scopes.default_endpoints:
            self.assignments["workspace"] += grant(
                context, workspace_identity, endpoint, [roles.READER], self.child_options()
            )
        if people.publishers is not None and _opened(scopes.data_storage, people):
            grant(
                context,
                entra_group("publishers", people.publishers),
                scopes.data_storage,
                [roles.BLOB_DATA_CONTRIBUTOR],
                self.child_options(),
            )
        self.register_outputs({})

    @property
    def job_assignments(self) -> list[pulumi.Resource]:
        """Role assignments of the clusters' identities."""
        return [
            assignment
            for identity_role in DUTY_IDENTITIES.values()
            for assignment in self.assignments.get(identity_role, ())
        ]


class JobAccess(Component):
    """Role assignments of the clusters' identities on the containers of the workspace.

    Azure Machine Learning creates the containers, so they are not declared: a declared resource
    must not exist before. They may exist only after a first job, and Azure then refuses a role on
    them until then, so all else that this job needs comes before.
    """

    def __init__(self, context: StackContext, identities: Identities, scopes: JobScopes) -> None:
        super().__init__("job-access")
        for identity_role, grants in LATE_GRANTS.items():
            if identity_role in identities.by_role:
                principal = identities.principal(identity_role)
                _assign(context, principal, scopes, grants, self.child_options())
        self.register_outputs({})


class WorkspaceAccess(Component):
    """Role assignments on the workspace, and those of the people who work in it.

    Because keys are disabled, a user who opens a notebook or reads a result needs roles on the
    storage account too.
    """

    def __init__(
        self,
        context: StackContext,
        identity: Principal,
        workspace: Scope,
        scopes: Scopes,
        groups: PeopleSettings,
    ) -> None:
        super().__init__("workspace-access")
        self.assignments = grant(
            context, identity, workspace, [roles.CONTRIBUTOR], self.child_options()
        )
        scientists, operators = groups.scientists, groups.operators
        storage = [roles.BLOB_DATA_CONTRIBUTOR, roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR]
        for name, group, scope, needed in (
            ("scientists", scientists, workspace, [roles.AZUREML_DATA_SCIENTIST]),
            ("scientists", scientists, scopes.default_storage, storage),
            ("scientists", scientists, scopes.data_storage, [roles.BLOB_DATA_READER]),
            ("operators", operators, workspace, [roles.AZUREML_COMPUTE_OPERATOR]),
        ):
            if group is not None and _opened(scope, groups):
                grant(context, entra_group(name, group), scope, needed, self.child_options())
        self.register_outputs({})


def _opened(account: Scope, people: PeopleSettings) -> bool:
    """Whether the stack gives people their roles on an account."""
    return account.subscription is None or people.on_existing_accounts


def _assign(
    context: StackContext,
    principal: Principal,
    scopes: Scopes | JobScopes,
    grants: Sequence[Grant],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    return [
        assignment
        for one in grants
        if getattr(scopes, one.scope) is not None
        for assignment in grant(
            context, principal, getattr(scopes, one.scope), [one.role], opts, one.condition
        )
    ]
