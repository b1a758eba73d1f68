"""The role of scientists as a leaf: one that the stack defines, in place of Azure's.

The definition of *AzureML Data Scientist* excludes `computes/*/write`, and the operation that
creates a compute is `computes/write` (Azure, "Azure built-in roles" and "Create and manage an Azure
Machine Learning compute instance"). Whether that pattern matches this operation was not tried. The
role here names the operations themselves, so it does not depend on the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from infra.catalog.roles import AZUREML_DATA_SCIENTIST, OwnRole
from infra.leaf import Check, Leaf
from infra.naming import Limit, Name
from infra.settings import Settings

WORKSPACES: Final = "Microsoft.MachineLearningServices/workspaces"
ACTIONS: Final = ("read", "*/read", "*/action", "*/delete", "*/write")
"""All that is done in a workspace, as in Azure's role."""
NOT_ACTIONS: Final = (
    "write",
    "delete",
    "listKeys/action",
    "hubs/write",
    "hubs/delete",
    "featurestores/write",
    "featurestores/delete",
    "computes/write",
    "computes/delete",
    "computes/*/write",
    "computes/*/delete",
    "computes/listKeys/action",
    "connections/*",
    "datastores/write",
    "datastores/delete",
    "managedNetworks/*",
    "outboundRules/*",
    "privateEndpointConnections/*",
    "serverlessEndpoints/*",
)
"""Operations that Azure's role excludes, those on computes by name, and those on resources that the
stack declares."""
SERVING: Final = "onlineEndpoints/*"
"""Endpoints rent machines: excluded unless the stack serves models."""
NAME: Final = Name(
    "role of scientists",
    lambda names: f"Data scientist of {names.base} {names.hash(names.subscription.lower())}",
    Limit(r"[\w -]+", 1, 128),
)
"""Unique in the tenant, as Azure requires."""


@dataclass(frozen=True)
class ScientistSettings:
    """What scientists may do."""

    existing_clusters_only: bool = False
    """Give scientists a role that the stack defines, in place of AzureML Data Scientist: they
    submit to the stack's clusters, and create no computes, datastores, connections or private
    endpoints, nor endpoints of models unless `serving` is on. The deployer needs the right to
    define roles, such as User Access Administrator; with `roles: existing`, the owner has it."""


def _own_roles(settings: Settings) -> Mapping[str, OwnRole]:
    if not settings.of(ScientistSettings).existing_clusters_only:
        return {}
    excluded = NOT_ACTIONS if settings.serving else (*NOT_ACTIONS, SERVING)
    return {
        AZUREML_DATA_SCIENTIST: OwnRole(
            id=settings.names.role_definition("data-scientist"),
            label="data-scientist",
            name=NAME(settings.names),
            actions=tuple(f"{WORKSPACES}/{one}" for one in ACTIONS),
            not_actions=tuple(f"{WORKSPACES}/{one}" for one in excluded),
        )
    }


def _of_someone(settings: Settings) -> Iterator[str]:
    if settings.of(ScientistSettings).existing_clusters_only and not settings.people.scientists:
        yield (
            "people.existing_clusters_only: limits the group people.scientists, which is not set;"
            " name the group, or remove the limit"
        )


LEAF: Final = Leaf(
    groups={"people": ScientistSettings},
    checks=(Check(("people.existing_clusters_only", "people.scientists"), _of_someone),),
    names=(NAME,),
    own_roles=_own_roles,
    facts="infra.extras.scientist_role.security:FACTS",
    types={
        "authorization:RoleDefinition": (
            "{scope}/providers/Microsoft.Authorization/roleDefinitions/{roleDefinitionId}"
        )
    },
)
