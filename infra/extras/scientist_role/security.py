"""Facts for the security rules about the role of scientists."""

from collections.abc import Mapping
from typing import Final

from infra.extras.scientist_role.leaf import NAME
from infra.resources import DEFINITION
from infra.rules.access import OWN_ROLE
from infra.rules.facts import Facts
from infra.rules.rule import Rule
from infra.settings import Settings

_IN: Final = "Microsoft.MachineLearningServices/workspaces"
_ALLOWED: Final = ("read", "*/read", "*/action", "*/delete", "*/write")
_EXCLUDED: Final = (
    "write delete listKeys/action hubs/write hubs/delete featurestores/write featurestores/delete"
    " computes/write computes/delete computes/*/write computes/*/delete computes/listKeys/action"
    " connections/* datastores/write datastores/delete managedNetworks/* outboundRules/*"
    " privateEndpointConnections/* serverlessEndpoints/*"
)


def _permissions(settings: Settings) -> list[Mapping[str, list[str]]]:
    excluded = _EXCLUDED.split() + ([] if settings.serving else ["onlineEndpoints/*"])
    return [
        {
            "actions": [f"{_IN}/{action}" for action in _ALLOWED],
            "notActions": [f"{_IN}/{action}" for action in excluded],
        }
    ]


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
                    "permissions": _permissions,
                    "roleDefinitionId": lambda s: s.names.role_definition("data-scientist"),
                    "roleName": lambda s: NAME(s.names),
                }
            },
        ),
    ),
    counts=lambda s: {DEFINITION: int(bool(s.own_roles) and s.roles == "declared")},
    grants=lambda _: {"scientists": {("workspace", OWN_ROLE): None}},
)
