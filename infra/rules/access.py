"""Rules on roles and identities: who may do what, and what must wait for which role."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from infra.rules.own_services import targets
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

Written down here a second time on purpose: a change in what the program declares is a violation
until somebody has changed this table too.
"""


def people() -> dict[str, Callable[[Settings], str | None]]:
    """Return the groups of people of the trunk and of the leaves; one group may be several."""
    return {
        **_PEOPLE,
        **{label: group for one in of_leaves() for label, group in one.people.items()},
    }


def grants() -> Mapping[str, Grants]:
    """Return the roles of the identities and people of the trunk and of the leaves."""
    return extended(GRANTS, *(one.grants for one in of_leaves()))


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


def _assignments(resources: Sequence[Resource], settings: Settings) -> Faults:
    holders = _holders(resources, settings)
    principals, services = _principals(resources, settings, holders), targets(resources, settings)
    granted, names = grants(), roles(settings)
    groups = {label: group(settings) for label, group in people().items()}
    duties = {cluster.duty for cluster in settings.clusters.values()}
    unused = {role for duty, role in IDENTITY_OF_DUTY.items() if duty not in duties}
    for assignment in of_kind(resources, ASSIGNMENT):
        guid = guid_of(assignment)
        principal, role = str(input_at(assignment, "principalId")), names.get(guid, guid)
        holder = holders[assignment.key]
        gives = f"gives {holder or principal} {role}"
        if holder is None:
            yield assignment, f"{gives}, but the stack's settings name no such principal"
            continue
        if holder in unused:
            yield assignment, f"{gives}, but no cluster of the stack has its duty"
        if holder == "serving" and not settings.serving:
            yield assignment, f"{gives}, but the stack serves no models"
        if principal != principals[holder]:
            yield assignment, f"{gives} through the principal {principal}, which is not {holder}"
        scope = str(input_at(assignment, "scope"))
        target = next((label for label, id_ in services if named(scope, *id_)), None)
        if target is None:
            yield assignment, f"{gives} on {scope}, which is not one service of the stack"
            continue
        places = (target, _container(target, scope))
        rows = [granted.get(duty, {}) for duty in _duties(holder, principal, groups)]
        allowed = [row[place, role] for row in rows for place in places if (place, role) in row]
        condition = input_at(assignment, "condition")
        if not allowed:
            yield assignment, f"{gives} on {scope}, which its duty does not need"
        elif condition not in allowed:
            yield assignment, f"{gives} on {scope} with the condition {condition!r}"


def assigned(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource, str | None, str]]:
    """Yield each role assignment with its holder and its target, such as `data/raw` or `vault`; the
    target is empty if it is no service of the stack.
    """
    holders, services = _holders(resources, settings), targets(resources, settings)
    for one in of_kind(resources, ASSIGNMENT):
        scope = str(input_at(one, "scope"))
        target = next((label for label, id_ in services if named(scope, *id_)), "")
        inside = target and "/containers/" in scope
        yield one, holders[one.key], _container(target, scope) if inside else target


def _container(target: str, scope: str) -> str:
    """Return the target of a role on a container, such as `data/raw`."""
    name = scope.rpartition("/containers/")[2]
    if match := JOB_CONTAINERS.fullmatch(name):
        name = "job-outputs" if match["outputs"] else "job-logs"
    return f"{target}/{name}"


LEAST_PRIVILEGE = Rule(
    "least-privilege",
    "Each identity and each group of people has only the roles of its duty, each on one service or "
    "container: of the identities, only that of preparation can write training data.",
    "Remove the assignment, or add it to GRANTS in infra/rules/access.py.",
    of_stack=_assignments,
)


def _holders(resources: Sequence[Resource], settings: Settings) -> dict[str, str | None]:
    """Return the duty of the identity, or the group of people, that each assignment is for."""
    groups = {group(settings): label for label, group in reversed(people().items())}
    duties = _duties_by_name(settings)
    identities = {
        identity.key: duties.get(str(input_at(identity, "resourceName")))
        for identity in of_kind(resources, IDENTITY)
    }

    def holder(assignment: Resource) -> str | None:
        principal = input_at(assignment, "principalId")
        if principal is not None and principal in groups:
            return groups[principal]
        needed = (identities.get(key) for key in assignment.options.get("dependsOn", ()))
        return next((duty for duty in needed if duty is not None), None)

    return {one.key: holder(one) for one in of_kind(resources, ASSIGNMENT)}


def _duties(holder: str, principal: str, groups: Mapping[str, str | None]) -> list[str]:
    """Return the duty of an identity, or all duties of a group of people."""
    held = [label for label, group in groups.items() if group == principal]
    return held if holder in groups else [holder]


def _principals(
    resources: Sequence[Resource], settings: Settings, holders: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the principal id of each holder: that of its identity, or else the one that most of
    its assignments name.
    """
    named_by: dict[str, Counter[str]] = defaultdict(Counter)
    for assignment in of_kind(resources, ASSIGNMENT):
        holder = holders[assignment.key]
        if holder is not None:
            named_by[holder][str(input_at(assignment, "principalId"))] += 1
    most = {holder: counted.most_common(1)[0][0] for holder, counted in named_by.items()}
    return most | _of_identities(resources, settings)


def _of_identities(resources: Sequence[Resource], settings: Settings) -> dict[str, str]:
    """Return the principal ids that Azure has given to the identities, as far as they are known."""
    duties = _duties_by_name(settings)
    found = {}
    for identity in of_kind(resources, IDENTITY):
        id_ = input_at(identity, "principalId") or identity.outputs.get("principalId")
        duty = duties.get(str(input_at(identity, "resourceName")))
        if id_ and duty:
            found[duty] = str(id_)
    return found


def _duties_by_name(settings: Settings) -> dict[str, str]:
    return {settings.names.identity(duty): duty for duty in IDENTITIES}


def _computes(resources: Sequence[Resource], settings: Settings) -> Faults:
    names = settings.names
    own = {
        settings.cluster_name(key): IDENTITY_OF_DUTY[cluster.duty]
        for key, cluster in settings.clusters.items()
    }
    for cluster in of_kind(resources, COMPUTE):
        duty = own.get(str(input_at(cluster, "computeName")))
        if duty is None:
            yield cluster, "is a cluster that the stack's settings do not name"
            continue
        held = [resource_ids.name(str(id_)) for id_ in _identities(cluster)]
        if input_at(cluster, "identity.type") != "UserAssigned" or held != [names.identity(duty)]:
            yield cluster, f"its jobs act as {held} and must act as {names.identity(duty)} alone"
    for workspace in of_kind(resources, WORKSPACE):
        held = [resource_ids.name(str(id_)) for id_ in _identities(workspace)]
        primary = resource_ids.name(str(input_at(workspace, "primaryUserAssignedIdentity")))
        if input_at(workspace, "identity.type") != "UserAssigned" or [*held, primary] != [
            names.identity("workspace"),
            names.identity("workspace"),
        ]:
            yield workspace, f"acts as {held} and must act as {names.identity('workspace')} alone"
        builders = [name for name, duty in own.items() if duty == "build"]
        if [*filter(None, [input_at(workspace, "imageBuildCompute")])] != builders:
            yield workspace, "its images are not built on the build cluster"


DUTY_OF_EACH_IDENTITY = Rule(
    "identity-of-duty",
    "Each cluster's jobs act as the identity of the cluster's duty and as no other, and images are "
    "built on the build cluster alone.",
    "Give the cluster the identity of its duty.",
    of_stack=_computes,
)


def _identities(resource: Resource) -> list[object]:
    """Return the ids of a resource's identities; a state lists them as the keys of a mapping."""
    return list(input_at(resource, "identity.userAssignedIdentities") or ())


def guid_of(assignment: Resource) -> str:
    return str(input_at(assignment, "roleDefinitionId")).rstrip("/").rsplit("/", 1)[-1].lower()


LATE: Final = ("default/job-logs", "default/job-outputs")
"""Targets of roles on the containers that Azure Machine Learning makes."""


def _order(resources: Sequence[Resource], settings: Settings) -> Faults:
    needed = requirements(resources)
    roles = list(assigned(resources, settings))
    late = {one.key for one, _, target in roles if target in LATE}
    to_services: set[str] = set()
    to_workspace: set[str] = set()
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        links = entries_at(endpoint, "privateLinkServiceConnections")
        groups = {group for link in links for group in link.get("groupIds") or ()}
        name = input_at(endpoint, "privateEndpointName")
        parts = [endpoint] + [
            one
            for one in of_kind(resources, "network:PrivateDnsZoneGroup")
            if input_at(one, "privateEndpointName") == name
        ]
        if "amlworkspace" in groups:
            to_workspace.update(one.key for one in parts)
        elif groups & {"blob", "file", "vault", "registry"}:
            to_services.update(one.key for one in parts)
    of_workspace = {one.key: target for one, holder, target in roles if holder == "workspace"}
    on_itself = {key for key, target in of_workspace.items() if target == "workspace"}
    duties = {settings.cluster_name(key): one.duty for key, one in settings.clusters.items()}
    for one in of_kind(resources, WORKSPACE):
        yield from _waits(one, needed, {*to_services, *of_workspace} - on_itself, late)
    for one in of_kind(resources, COMPUTE):
        duty = duties.get(str(input_at(one, "computeName")))
        holder = IDENTITY_OF_DUTY[duty] if duty else None
        own = {role.key for role, of, target in roles if of == holder and target not in ("", *LATE)}
        yield from _waits(one, needed, {*to_workspace, *on_itself, *own}, late)


def _waits(
    resource: Resource, needed: dict[str, frozenset[str]], wanted: set[str], late: set[str]
) -> Faults:
    before = needed[resource.key]
    if missing := sorted(one.rpartition("::")[2] for one in wanted - before):
        yield resource, f"does not wait for {', '.join(missing)}"
    if waits := sorted(one.rpartition("::")[2] for one in late & before):
        yield resource, f"waits for {', '.join(waits)}, which Azure may refuse until a first job"


ORDER = Rule(
    "order",
    "The workspace waits for its identity's roles and for the endpoints of its services, and each "
    "cluster for the workspace's endpoint and its jobs' roles, but not for roles on containers "
    "that may exist only after a first job.",
    "Restore the dependency (dependsOn).",
    of_stack=_order,
)
