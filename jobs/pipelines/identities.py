"""The identities of the workflows, and the least roles of each. Pure.

A user-assigned identity trusts the tokens that GitHub signs for one repository and one occasion,
which the subject of the token names: a pull request, the main branch or an environment (GitHub,
"OpenID Connect reference"). So there is no secret, and no right to Entra's directory is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from infra.prerequisites import Prerequisites
from jobs.pipelines.state_account import (
    CONTRIBUTOR,
    READER,
    ROLE_ADMINISTRATOR,
    Resource,
    StateNames,
    assignment,
    state_roles,
)

Purpose = Literal["preview", "up", "jobs"]
PURPOSES: Final[Mapping[Purpose, str]] = {
    "preview": "previews and the drift check",
    "up": "deployments",
    "jobs": "submissions and supervision",
}

_API_VERSION: Final = "2023-01-31"
_ISSUER: Final = "https://token.actions.githubusercontent.com"
_AUDIENCE: Final = "api://AzureADTokenExchange"
_SERVICE: Final = "ServicePrincipal"


@dataclass(frozen=True)
class Identity:
    """The identity of some workflows of one stack."""

    purpose: Purpose
    id: str
    """Resource id."""
    subjects: Mapping[str, str]
    """Subjects of the tokens that it trusts, by the names of its credentials."""

    @property
    def words(self) -> str:
        """Name for people."""
        return f"identity {self.id.rpartition('/')[2]}"


def identities(names: StateNames, stack: str, repository: str) -> list[Identity]:
    """Return the identities of the workflows of one stack.

    Args:
        names: Names around Pulumi's state, in whose group the identities are.
        stack: Name of the stack, and of the environment in GitHub whose approval `up` needs.
        repository: Repository as the subjects of its tokens name it: ORGANISATION/REPOSITORY, or
            with immutable ids ORGANISATION@ID/REPOSITORY@ID.
    """
    main = f"repo:{repository}:ref:refs/heads/main"
    subjects: Mapping[Purpose, Mapping[str, str]] = {
        "preview": {"pull-request": f"repo:{repository}:pull_request", "main": main},
        "up": {"environment": f"repo:{repository}:environment:{stack}"},
        "jobs": {"main": main},
    }
    provider = "providers/Microsoft.ManagedIdentity/userAssignedIdentities"
    return [
        Identity(
            purpose,
            f"{names.group_id}/{provider}/{names.prefix}-{stack}-{purpose}",
            trusted,
        )
        for purpose, trusted in subjects.items()
    ]


def declared(identity: Identity, needs: Prerequisites) -> list[Resource]:
    """Return an identity and what it trusts, in order: Azure refuses credentials of one identity
    that are created at the same time.
    """
    body: Mapping[str, Any] = {"location": needs.region, "tags": dict(needs.tags)}
    return [
        Resource(identity.id, _API_VERSION, body, f"identity for {PURPOSES[identity.purpose]}"),
        *(
            Resource(
                f"{identity.id}/federatedIdentityCredentials/{name}",
                _API_VERSION,
                {"properties": {"issuer": _ISSUER, "subject": subject, "audiences": [_AUDIENCE]}},
                f"trust in GitHub's tokens for {subject}",
            )
            for name, subject in identity.subjects.items()
        ),
    ]


def roles(
    identity: Identity, principal: str, names: StateNames, needs: Prerequisites
) -> list[Resource]:
    """Return the roles of an identity.

    The identity for jobs gets only the state: what it may do with jobs comes from the stack's group
    of people who may submit them.

    Args:
        identity: The identity.
        principal: Its object id.
        names: Names around Pulumi's state.
        needs: What the stack asks of Azure.
    """
    writes = identity.purpose == "up"
    found = state_roles(names, principal, identity.words, writes=writes, kind=_SERVICE)
    scope = stack_scope(needs)
    if identity.purpose == "preview":
        found.append(assignment(scope, principal, READER, identity.words, kind=_SERVICE))
    if writes:
        found += [
            assignment(scope, principal, CONTRIBUTOR, identity.words, kind=_SERVICE),
            assignment(
                scope,
                principal,
                ROLE_ADMINISTRATOR,
                identity.words,
                kind=_SERVICE,
                condition=only_roles(needs),
            ),
        ]
    return found


def stack_scope(needs: Prerequisites) -> str:
    """Return the id of the smallest scope that holds everything a stack declares: its group if that
    exists before it, otherwise the subscription, in which the stack creates its group.
    """
    subscription = f"/subscriptions/{needs.subscription_id}"
    group = f"{subscription}/resourceGroups/{needs.resource_group}"
    return group if needs.group_exists else subscription


def only_roles(needs: Prerequisites) -> str:
    """Return the condition with which an identity assigns and removes only the roles that stacks
    assign: neither Owner nor the right to assign roles is one of them (Azure RBAC, "Examples to
    delegate Azure role assignment management with conditions", "Constrain roles").
    """
    guids = ", ".join(needs.roles)
    attribute = "Microsoft.Authorization/roleAssignments:RoleDefinitionId"
    parts = [
        f"((!(ActionMatches{{'Microsoft.Authorization/roleAssignments/{action}'}})) OR"
        f" (@{source}[{attribute}] ForAnyOfAnyValues:GuidEquals {{{guids}}}))"
        for action, source in (("write", "Request"), ("delete", "Resource"))
    ]
    return " AND ".join(parts)
