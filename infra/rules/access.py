"""Rules on roles and identities: who may do what, and what must wait for which role."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.catalog import resource_ids
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    IDENTITY,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
    requirements,
)
from infra.rules.expected import Expected, as_set, by_name, exactly, only_if
from infra.rules.facts import Grants, extended, of_leaves
from infra.rules.literals import (
    IDENTITIES,
    IDENTITY_OF_DUTY,
    OWN_ROLE,
    READS_NO_RESULTS,
    READS_NO_RUNS,
    ROLES,
    WRITES_JOB_OUTPUTS,
    WRITES_RUNS,
)
from infra.rules.network import PRIVATE_ENDPOINT
from infra.rules.own_services import cluster_of, targets
from infra.rules.rule import Faults, Rule, named
from infra.settings import Settings

_PEOPLE: Final[Mapping[str, Callable[[Settings], str | None]]] = {
    "publishers": lambda settings: settings.people.publishers,
    "scientists": lambda settings: settings.people.scientists,
    "operators": lambda settings: settings.people.operators,
}
"""Groups of people of the trunk."""

JOB_GRANTS: Final[Grants] = {
    ("vault", "Key Vault Secrets User"): None,
    ("registry", "AcrPull"): None,
    ("default/job-logs", "Storage Blob Data Contributor"): None,
}

NO_RESULTS: Final[Grants] = {("default", "Storage Blob Data Reader"): READS_NO_RESULTS}
NO_RUNS: Final[Grants] = {("default", "Storage Blob Data Reader"): READS_NO_RUNS}

JOB_OUTPUTS: Final[Grants] = {
    ("default/job-outputs", "Storage Blob Data Contributor"): WRITES_JOB_OUTPUTS
}

GRANTS: Final[Mapping[str, Grants]] = {
    "workspace": {
        ("default", "Contributor"): None,
        ("default", "Storage Blob Data Contributor"): None,
        ("default", "Storage File Data Privileged Contributor"): None,
        ("data", "Storage Blob Data Reader"): None,
        ("vault", "Contributor"): None,
        ("vault", "Key Vault Administrator"): None,
        ("registry", "Contributor"): None,
        ("insights", "Contributor"): None,
        ("endpoint", "Reader"): None,
        ("workspace", "Contributor"): None,
    },
    "training": {
        **JOB_GRANTS,
        **JOB_OUTPUTS,
        ("default", "Storage Blob Data Reader"): None,
        ("default/results", "Storage Blob Data Contributor"): WRITES_RUNS,
        ("data/prepared", "Storage Blob Data Reader"): None,
    },
    "preparation": {
        **JOB_GRANTS,
        **JOB_OUTPUTS,
        **NO_RUNS,
        ("data/raw", "Storage Blob Data Reader"): None,
        ("data/prepared", "Storage Blob Data Contributor"): None,
    },
    "build": {**JOB_GRANTS, **NO_RESULTS, ("registry", "AcrPush"): None},
    "serving": {
        ("registry", "AcrPull"): None,
        ("default/results", "Storage Blob Data Reader"): None,
    },
    "publishers": {("data", "Storage Blob Data Contributor"): None},
    "scientists": {
        ("default", "Storage Blob Data Contributor"): None,
        ("default", "Storage File Data Privileged Contributor"): None,
        ("data", "Storage Blob Data Reader"): None,
        ("workspace", "AzureML Data Scientist"): None,
    },
    "operators": {("workspace", "AzureML Compute Operator"): None},
}
"""Roles that each identity and each group of people may have.

Written down here a second time on purpose: a change in the program's declarations is a violation
until this table is changed too.
"""


def people() -> dict[str, Callable[[Settings], str | None]]:
    """Return the groups of people of the trunk and of the leaves; one group may be several."""
    added = (group for facts in of_leaves() for group in facts.people.items())
    return {**_PEOPLE, **dict(added)}


def grants() -> Mapping[str, Grants]:
    """Return the roles of the identities and people of the trunk and of the leaves."""
    return extended(GRANTS, *(facts.grants for facts in of_leaves()))


def roles(settings: Settings) -> dict[str, str]:
    """Return the names of Azure's roles and of those that the stack defines, by GUID."""
    return {**ROLES, **{own.id: OWN_ROLE for own in settings.own_roles.values()}}


JOB_CONTAINERS: Final = re.compile(
    r"([0-9a-f-]{36}-)?azureml(?P<outputs>-blobstore)?(-[0-9a-f-]{36})?"
)
"""Containers that Azure Machine Learning creates for jobs, by the workspace's GUID."""


def _unlisted(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.kind == ASSIGNMENT and settings.roles == "existing":
        yield "is declared, though the owner of the subscription assigns the roles of this stack"
    elif resource.kind == ASSIGNMENT and guid_of(resource) not in roles(settings):
        yield f"assigns the role {guid_of(resource)}, which infra/rules/literals.py does not list"


NO_OWNER = Rule(
    "no-owner",
    "Every role is listed in infra/rules/literals.py; none of them allows its holder to assign "
    "roles. With roles: existing the stack assigns none.",
    "Assign the narrowest role that is sufficient; only the deployer, or with roles: existing the "
    "owner of the subscription, assigns roles.",
    of_resource=_unlisted,
)


@dataclass(frozen=True)
class Assignment:
    """A role assignment, read."""

    resource: Resource
    holder: str | None
    """Duty of the identity, or group of people, that has the role; None for any other principal."""
    principal: str
    role: str
    scope: str
    target: str
    """Service that the role is on; empty for anything else."""

    @property
    def place(self) -> str:
        """The service, or the container in it, such as `data/raw`."""
        _, inside, name = self.scope.rpartition("/containers/")
        if job := JOB_CONTAINERS.fullmatch(name):
            name = "job-outputs" if job["outputs"] else "job-logs"
        return f"{self.target}/{name}" if inside and self.target else self.target


def _read(resources: Sequence[Resource], settings: Settings) -> list[Assignment]:
    """Return the role assignments of a stack. That an assignment is for an identity is read from
    its dependencies, because a preview does not know the identity's principal.
    """
    groups = {group(settings): label for label, group in reversed(people().items())}
    identities, services = _identities(resources, settings), targets(resources, settings)
    names = roles(settings)
    assignments = []
    for resource in of_kind(resources, ASSIGNMENT):
        principal, scope = input_at(resource, "principalId"), str(input_at(resource, "scope"))
        duties = (identities.get(key) for key in resource.options.get("dependsOn", ()))
        of_identity = next(filter(None, duties), None)
        holder = of_identity if principal is None else groups.get(principal, of_identity)
        target = next((label for label, id_ in services if named(scope, *id_)), "")
        role = names.get(guid_of(resource), guid_of(resource))
        assignments.append(Assignment(resource, holder, str(principal), role, scope, target))
    return assignments


def _identities(resources: Sequence[Resource], settings: Settings) -> dict[str, str | None]:
    """Return the duties of the identities by their keys."""
    duties = {settings.names.identity(duty): duty for duty in IDENTITIES}
    return {
        identity.key: duties.get(str(input_at(identity, "resourceName")))
        for identity in of_kind(resources, IDENTITY)
    }


def _principals(
    assignments: Sequence[Assignment], resources: Sequence[Resource], settings: Settings
) -> dict[str | None, str]:
    """Return the principal of each holder: that of its identity, as far as Azure has told it, or
    else the one that most of its assignments name.
    """
    named_by: dict[str | None, Counter[str]] = defaultdict(Counter)
    for assignment in assignments:
        named_by[assignment.holder][assignment.principal] += 1
    principals = {holder: counted.most_common(1)[0][0] for holder, counted in named_by.items()}
    duties = _identities(resources, settings)
    for identity in of_kind(resources, IDENTITY):
        id_ = input_at(identity, "principalId") or identity.outputs.get("principalId")
        if id_:
            principals[duties[identity.key]] = str(id_)
    return principals


def _too_wide(resources: Sequence[Resource], settings: Settings) -> Faults:
    assignments = _read(resources, settings)
    principals = _principals(assignments, resources, settings)
    for given in assignments:
        for fault in _beyond(given, principals[given.holder], settings):
            yield given.resource, f"gives {given.holder or given.principal} {given.role}{fault}"


def _beyond(given: Assignment, principal: str, settings: Settings) -> Iterator[str]:
    """Yield why the holder of a role, whose principal this is, should not have it."""
    duties = {IDENTITY_OF_DUTY[cluster.duty] for cluster in settings.clusters.values()}
    if given.holder is None:
        yield ", but the stack's settings name no such principal"
        return
    if given.holder in IDENTITY_OF_DUTY.values() and given.holder not in duties:
        yield ", but no cluster of the stack has its duty"
    if given.holder == "serving" and not settings.serving:
        yield ", but the stack serves no models"
    if given.principal != principal:
        yield f" through the principal {given.principal}, which is not {given.holder}"
    if not given.target:
        yield f" on {given.scope}, which is not one service of the stack"
        return
    groups = {label: group(settings) for label, group in people().items()}
    held = {given.holder}
    if given.holder in groups:
        # A group of people may have several duties.
        held = {label for label, group in groups.items() if group == given.principal}
    rows, places = [grants().get(label, {}) for label in held], (given.target, given.place)
    allowed = {row.get((place, given.role), "") for row in rows for place in places} - {""}
    condition = input_at(given.resource, "condition")
    if not allowed:
        yield f" on {given.scope}, which its duty does not need"
    elif condition not in allowed:
        yield f" on {given.scope} with the condition {condition!r}"


LEAST_PRIVILEGE = Rule(
    "least-privilege",
    "Each identity and each group of people has only the roles of its duty, each on one service or "
    "container: of the identities, only that of preparation can write training data.",
    "Remove the assignment, or add it to GRANTS in infra/rules/access.py.",
    of_stack=_too_wide,
)


def _acts_as(duty: str) -> Expected:
    """Expect the identity of a duty alone; a state lists identities as the keys of a mapping."""
    return Expected(
        lambda s: f"{s.names.identity(duty)} alone",
        lambda given, s: [resource_ids.name(id_) for id_ in given] == [s.names.identity(duty)],
    )


def _of_cluster(resource: Resource, settings: Settings) -> Expected | None:
    cluster = cluster_of(resource, settings)
    return None if cluster is None else _acts_as(IDENTITY_OF_DUTY[cluster.duty])


def _builders(settings: Settings) -> list[str]:
    return [
        settings.cluster_name(key) for key, it in settings.clusters.items() if it.duty == "build"
    ]


def _unknown(resources: Sequence[Resource], settings: Settings) -> Faults:
    for cluster in of_kind(resources, COMPUTE):
        if cluster_of(cluster, settings) is None:
            yield cluster, "is a cluster that the stack's settings do not name"


DUTY_OF_EACH_IDENTITY = Rule(
    "identity-of-duty",
    "Each cluster's jobs act as the identity of the cluster's duty and as no other, and images are "
    "built on the build cluster alone.",
    "Give the cluster the identity of its duty.",
    {
        COMPUTE: {
            "identity.type": exactly("UserAssigned"),
            "identity.userAssignedIdentities": _of_cluster,
        },
        WORKSPACE: {
            "identity.type": exactly("UserAssigned"),
            "identity.userAssignedIdentities": _acts_as("workspace"),
            "primaryUserAssignedIdentity": by_name(lambda s: s.names.identity("workspace")),
            "imageBuildCompute": only_if(
                lambda s: bool(_builders(s)), as_set(lambda s: _builders(s)[0])
            ),
        },
    },
    of_stack=_unknown,
)


def guid_of(assignment: Resource) -> str:
    return str(input_at(assignment, "roleDefinitionId")).rstrip("/").rsplit("/", 1)[-1].lower()


LATE: Final = ("default/job-logs", "default/job-outputs")
"""Targets of roles on the containers that Azure Machine Learning makes."""


def _order(resources: Sequence[Resource], settings: Settings) -> Faults:
    needed, roles = requirements(resources), _read(resources, settings)
    late = {role.resource.key for role in roles if role.place in LATE}
    of_workspace = {role.resource.key for role in roles if role.holder == "workspace"}
    on_itself = {
        role.resource.key
        for role in roles
        if role.holder == "workspace" and role.place == "workspace"
    }
    zone_groups: dict[object, set[str]] = defaultdict(set)
    for group in of_kind(resources, "network:PrivateDnsZoneGroup"):
        zone_groups[input_at(group, "privateEndpointName")].add(group.key)
    to_services: set[str] = set()
    to_workspace: set[str] = set()
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        links = entries_at(endpoint, "privateLinkServiceConnections")
        groups = {group for link in links for group in link.get("groupIds") or ()}
        parts = {endpoint.key} | zone_groups[input_at(endpoint, "privateEndpointName")]
        if "amlworkspace" in groups:
            to_workspace |= parts
        elif groups & {"blob", "file", "vault", "registry"}:
            to_services |= parts
    for workspace in of_kind(resources, WORKSPACE):
        yield from _waits(workspace, needed, to_services | of_workspace - on_itself, late)
    for resource in of_kind(resources, COMPUTE):
        cluster = cluster_of(resource, settings)
        holder = IDENTITY_OF_DUTY[cluster.duty] if cluster else None
        own = {role.resource.key for role in roles if role.holder == holder and role.target}
        yield from _waits(resource, needed, to_workspace | on_itself | own - late, late)


def _waits(
    resource: Resource, needed: dict[str, frozenset[str]], wanted: set[str], late: set[str]
) -> Faults:
    before = needed[resource.key]
    if missing := sorted(key.rpartition("::")[2] for key in wanted - before):
        yield resource, f"does not wait for {', '.join(missing)}"
    if waits := sorted(key.rpartition("::")[2] for key in late & before):
        yield resource, f"waits for {', '.join(waits)}, which Azure may refuse until a first job"


ORDER = Rule(
    "order",
    "The workspace waits for its identity's roles and for the endpoints of its services, and each "
    "cluster for the workspace's endpoint and its jobs' roles, but not for roles on containers "
    "that may exist only after a first job.",
    "Restore the dependency (dependsOn).",
    of_stack=_order,
)
