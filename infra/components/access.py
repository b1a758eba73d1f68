"""Access: who may do what, and on nothing more than it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import authorization

from infra.catalog import roles
from infra.components.base import Component, Place
from infra.components.identity import Identities
from infra.components.roles import Principal, Scope, grant
from infra.groups import PeopleSettings
from infra.naming import IdentityRole


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

DUTIES: Mapping[IdentityRole, Mapping[str, tuple[str, ...]]] = {
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
        place: Place,
        identities: Identities,
        scopes: Scopes,
        publishers: str | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("access", opts)
        self.given: dict[IdentityRole, list[pulumi.Resource]] = {}
        for duty, wanted in DUTIES.items():
            principal = identities.principal(duty)
            self.given[duty] = [
                assignment
                for scope, given in wanted.items()
                if getattr(scopes, scope) is not None
                for assignment in grant(place, principal, getattr(scopes, scope), given, self.own())
            ]
        service = identities.principal("workspace")
        for endpoint in scopes.default_endpoints:
            self.given["workspace"] += grant(place, service, endpoint, [roles.READER], self.own())
        if publishers is not None:
            grant(
                place,
                people("publishers", publishers),
                scopes.data_storage,
                [roles.BLOB_DATA_CONTRIBUTOR],
                self.own(),
            )
        self.register_outputs({})

    @property
    def of_jobs(self) -> list[pulumi.Resource]:
        """The roles of the clusters' identities."""
        return [*self.given["training"], *self.given["preparation"], *self.given["build"]]


class WorkspaceAccess(Component):
    """The roles on the workspace, and what people need who work in it.

    Without keys, whoever opens a notebook or reads a result needs roles on the account behind it.
    """

    def __init__(
        self,
        place: Place,
        identity: Principal,
        workspace: Scope,
        scopes: Scopes,
        groups: PeopleSettings,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("workspace-access", opts)
        self.given = grant(place, identity, workspace, [roles.CONTRIBUTOR], self.own())
        if groups.scientists is not None:
            who = people("scientists", groups.scientists)
            storage = [roles.BLOB_DATA_CONTRIBUTOR, roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR]
            grant(place, who, workspace, [roles.AZUREML_DATA_SCIENTIST], self.own())
            grant(place, who, scopes.default_storage, storage, self.own())
            grant(place, who, scopes.data_storage, [roles.BLOB_DATA_READER], self.own())
        if groups.operators is not None:
            who = people("operators", groups.operators)
            grant(place, who, workspace, [roles.AZUREML_COMPUTE_OPERATOR], self.own())
        self.register_outputs({})


def people(label: str, group: str) -> Principal:
    """A group of Entra, by its object id."""
    return Principal(label, group, authorization.PrincipalType.GROUP)
