"""The table of who may do what, read from role assignments."""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.catalog import roles
from infra.offline.diagram.parts import last, text_at
from infra.policies.rule import (
    ASSIGNMENT,
    GROUP,
    IDENTITY,
    INSIGHTS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    of,
    token,
)
from infra.resources import Resource

ENDPOINT = "network:PrivateEndpoint"
MONITOR = "monitor:PrivateLinkScope"
SERVICES = (WORKSPACE, REGISTRY, VAULT, STORAGE, MONITOR)
"""What a private endpoint may lead to, in the order in which it is shown."""


@dataclass(frozen=True)
class Grants:
    """What one identity or group may do."""

    who: str
    roles: tuple[tuple[str, ...], ...]
    """Names of roles, by column."""


def scopes(resources: Sequence[Resource]) -> list[tuple[str, str]]:
    """Titles and identifiers of what roles are given on, in the order of the services. Roles
    on endpoints, by which the studio finds an account, are left out.
    """
    spelled = {
        text_at(one, "scope").lower(): text_at(one, "scope") for one in of(resources, ASSIGNMENT)
    }
    known = {one.id.lower(): one for one in resources if one.id}
    endpoints = {one.id.lower() for one in of(resources, ENDPOINT)}
    order = {kind: place for place, kind in enumerate((*SERVICES, INSIGHTS, GROUP))}

    def place(scope: str) -> tuple[int, str]:
        return (order.get(token(known[scope]), len(order)) if scope in known else -1, scope)

    found = sorted({scope for scope in spelled if scope not in endpoints}, key=place)
    return [(last(spelled[scope]), scope) for scope in found]


def grants(resources: Sequence[Resource], columns: Sequence[tuple[str, str]]) -> tuple[Grants, ...]:
    identities = {one.key: text_at(one, "resourceName") for one in of(resources, IDENTITY)}
    given: dict[str, dict[str, set[str]]] = {}
    for assignment in of(resources, ASSIGNMENT):
        needed = assignment.options.get("dependsOn", ())
        who = next((identities[key] for key in needed if key in identities), None)
        if who is None:
            who = f"{assignment.name.partition('-')[0]} (group)"
        role = last(text_at(assignment, "roleDefinitionId"))
        held = given.setdefault(who, {}).setdefault(text_at(assignment, "scope").lower(), set())
        held.add(roles.NAMES.get(role, role))
    return tuple(
        Grants(who, tuple(tuple(sorted(held.get(scope, ()))) for _, scope in columns))
        for who, held in sorted(given.items())
    )
