"""Facts for the security rules about the role of scientists."""

from collections.abc import Iterator, Mapping
from typing import Final

from infra.extras.scientist_role.leaf import NAME, ScientistSettings
from infra.resources import ASSIGNMENT, DEFINITION, Resource, input_at
from infra.rules.expected import as_set
from infra.rules.facts import Facts
from infra.rules.literals import OWN_ROLE
from infra.rules.rule import Rule
from infra.settings import Settings

AZURES: Final = "f6c7c914-8db3-469d-8ca1-694a8f32e121"
"""AzureML Data Scientist."""
_IN: Final = "Microsoft.MachineLearningServices/workspaces"
_ALLOWED: Final = ("read", "*/read", "*/action", "*/delete", "*/write")
_EXCLUDED: Final = (
    "write delete listKeys/action hubs/write hubs/delete featurestores/write featurestores/delete"
    " computes/write computes/delete computes/*/write computes/*/delete computes/listKeys/action"
    " connections/* datastores/write datastores/delete managedNetworks/* outboundRules/*"
    " privateEndpointConnections/* serverlessEndpoints/*"
)


def _limited(settings: Settings) -> bool:
    return settings.of(ScientistSettings).existing_clusters_only


def _permissions(settings: Settings) -> list[Mapping[str, list[str]]]:
    excluded = _EXCLUDED.split() + ([] if settings.serving else ["onlineEndpoints/*"])
    return [
        {
            "actions": [f"{_IN}/{action}" for action in _ALLOWED],
            "notActions": [f"{_IN}/{action}" for action in excluded],
        }
    ]


def _wider(resource: Resource, settings: Settings) -> Iterator[str]:
    given = str(input_at(resource, "roleDefinitionId")).lower()
    if resource.kind == ASSIGNMENT and _limited(settings) and given.endswith(AZURES):
        yield "gives AzureML Data Scientist, though people.existing_clusters_only is on"


FACTS = Facts(
    rules=(
        Rule(
            "own-role",
            "The role that the stack defines allows work with its clusters, and neither the "
            "creation of computes nor a way out of the network.",
            "Restore the definition; or change infra/extras/scientist_role/security.py, in a "
            "commit that says why.",
            {
                DEFINITION: {
                    "permissions": as_set(_permissions),
                    "roleDefinitionId": as_set(lambda s: s.names.role_definition("data-scientist")),
                    "roleName": as_set(lambda s: NAME(s.names)),
                }
            },
        ),
        Rule(
            "scientists-limited",
            "With people.existing_clusters_only no group has the role AzureML Data Scientist.",
            "Assign the role that the stack defines.",
            of_resource=_wider,
        ),
    ),
    counts=lambda settings: {DEFINITION: int(_limited(settings) and settings.roles == "declared")},
    grants={"scientists": {("workspace", OWN_ROLE): None}},
)
