"""Rules on roles and identities: who may do what.

Ids of roles, conditions and grants are written down a second time on purpose: a change in the
program's declarations is a violation until these are changed too.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.resources import ASSIGNMENT, COMPUTE, IDENTITY, WORKSPACE, Resource, input_at, of_kind
from infra.rules.facts import Grants, extended, of_leaves
from infra.rules.own_services import by_cluster, label_of, targets
from infra.rules.rule import Faults, Rule, by_name, one_of, only_id
from infra.settings import Settings

ROLES: Final[Mapping[str, str]] = {
    "b24988ac-6180-42a0-ab88-20f7382dd24c": "Contributor",
    "acdd72a7-3385-48ef-bd42-f606fba81ae7": "Reader",
    "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "69566ab7-960f-475b-8e7c-b3118f30c6bd": "Storage File Data Privileged Contributor",
    "7f951dda-4ed3-4680-a7ca-43fe172d538d": "AcrPull",
    "8311e382-0749-4cb8-b61a-304f252e45ec": "AcrPush",
    "00482a5a-887f-4fb3-b363-3b7fe8e74483": "Key Vault Administrator",
    "4633458b-17de-408a-b874-0445c86b69e6": "Key Vault Secrets User",
    "e147488a-f6f5-4113-8e2d-b22465e65bf6": "Key Vault Crypto Service Encryption User",
    "f6c7c914-8db3-469d-8ca1-694a8f32e121": "AzureML Data Scientist",
    "e503ece1-11d0-4e8e-8e2c-7a6c3bf38815": "AzureML Compute Operator",
    "b556d68e-0be0-4f35-a333-ad7ee1ce17ea": "Azure AI Enterprise Network Connection Approver",
    "fb879df8-f326-4884-b1cf-06f3ad86be52": "Virtual Machine User Login",
    "1c0163c0-47e6-4577-8991-ea5c82e286e4": "Virtual Machine Administrator Login",
    "489581de-a3bd-480d-9518-53dea7416b33": "Desktop Virtualization Power On Contributor",
}
"""Names of the roles that may be assigned, by GUID (Azure, "Azure built-in roles"). None of them
allows its holder to assign roles."""
OWN_ROLE: Final = "data scientist of the stack"
"""Name of the role that a stack defines in the place of AzureML Data Scientist."""

_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_READ: Final = f"ActionMatches{{'{_BLOBS}/read'}} AND NOT SubOperationMatches{{'Blob.List'}}"
_NAME: Final = "@Resource[Microsoft.Storage/storageAccounts/blobServices/containers:name]"
_PATH: Final = f"@Resource[{_BLOBS}:path]"
_WRITES: Final = (
    f"!(ActionMatches{{'{_BLOBS}/write'}}) AND !(ActionMatches{{'{_BLOBS}/add/action'}}) AND "
    f"!(ActionMatches{{'{_BLOBS}/delete'}})"
)
_ALL_BUT: Final = (
    f"(!({_READ})) OR ({_NAME} StringNotEquals 'results' "
    f"OR {_PATH} StringStartsWith 'environments/'"
)
READS_NO_RESULTS: Final = f"({_ALL_BUT}))"
READS_NO_RUNS: Final = f"({_ALL_BUT} OR {_PATH} StringStartsWith 'models/'))"
WRITES_RUNS: Final = f"(({_WRITES}) OR ({_PATH} StringStartsWith 'runs/'))"
WRITES_JOB_OUTPUTS: Final = f"(({_WRITES}) OR ({_PATH} StringStartsWith 'azureml/'))"

IDENTITY_OF_DUTY: Final = {"train": "training", "prepare": "preparation", "build": "build"}

JOB_GRANTS: Final[Grants] = {
    ("vault", "Key Vault Secrets User"): None,
    ("registry", "AcrPull"): None,
    ("default/job-logs", "Storage Blob Data Contributor"): None,
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
        ("default-blob-endpoint", "Reader"): None,
        ("default-file-endpoint", "Reader"): None,
        ("workspace", "Contributor"): None,
    },
    "training": {
        **JOB_GRANTS,
        ("default/job-outputs", "Storage Blob Data Contributor"): WRITES_JOB_OUTPUTS,
        ("default", "Storage Blob Data Reader"): None,
        ("default/results", "Storage Blob Data Contributor"): WRITES_RUNS,
        ("data/prepared", "Storage Blob Data Reader"): None,
    },
    "preparation": {
        **JOB_GRANTS,
        ("default/job-outputs", "Storage Blob Data Contributor"): WRITES_JOB_OUTPUTS,
        ("default", "Storage Blob Data Reader"): READS_NO_RUNS,
        ("data/raw", "Storage Blob Data Reader"): None,
        ("data/prepared", "Storage Blob Data Contributor"): None,
    },
    "build": {
        **JOB_GRANTS,
        ("default", "Storage Blob Data Reader"): READS_NO_RESULTS,
        ("registry", "AcrPush"): None,
    },
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
"""Roles that each identity and each group of people may have."""


def people(settings: Settings) -> dict[str, str | None]:
    """Return the groups of people of the trunk and of the leaves; one group may be several."""
    own = settings.people
    groups = {
        "publishers": own.publishers,
        "scientists": own.scientists,
        "operators": own.operators,
    }
    for facts in of_leaves():
        groups |= facts.people(settings)
    return groups


def grants(settings: Settings) -> Mapping[str, Grants]:
    """Return the roles of the identities and people of the trunk and of the leaves."""
    return extended(GRANTS, *(facts.grants(settings) for facts in of_leaves()))


JOB_CONTAINERS: Final = re.compile(
    r"([0-9a-f-]{36}-)?azureml(?P<outputs>-blobstore)?(-[0-9a-f-]{36})?"
)
"""Containers that Azure Machine Learning creates for jobs, by the workspace's GUID."""


def _unlisted(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.kind != ASSIGNMENT:
        return
    guid, own = guid_of(resource), {role.id for role in settings.own_roles.values()}
    if settings.roles == "existing":
        yield "is declared, though the owner of the subscription assigns the roles of this stack"
    elif guid in settings.own_roles:
        yield f"gives {ROLES.get(guid, guid)}, in place of which the stack defines a role"
    elif guid not in ROLES and guid not in own:
        yield f"assigns the role {guid}, which infra/rules/access.py does not list"


NO_OWNER = Rule(
    "no-owner",
    "Every role is listed in infra/rules/access.py; none of them allows its holder to assign "
    "roles. With roles: existing the stack assigns none, and none of Azure in place of which it "
    "defines one.",
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
    groups = {group: label for label, group in reversed(people(settings).items())}
    identities, services = _identities(resources, settings), targets(resources, settings)
    names = {**ROLES, **{own.id: OWN_ROLE for own in settings.own_roles.values()}}
    assignments = []
    for resource in of_kind(resources, ASSIGNMENT):
        principal, scope = input_at(resource, "principalId"), str(input_at(resource, "scope"))
        duties = (identities.get(key) for key in resource.options.get("dependsOn", ()))
        of_identity = next(filter(None, duties), None)
        holder = of_identity if principal is None else groups.get(principal, of_identity)
        target = label_of(scope, services)
        role = names.get(guid_of(resource), guid_of(resource))
        assignments.append(Assignment(resource, holder, str(principal), role, scope, target))
    return assignments


def _identities(resources: Sequence[Resource], settings: Settings) -> dict[str, str | None]:
    """Return the duties of the identities by their keys."""
    duties = {settings.names.identity(duty): duty for duty in grants(settings)}
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
    groups, held = people(settings), {given.holder}
    if given.holder in groups:
        # A group of people may have several duties.
        held = {label for label, group in groups.items() if group == given.principal}
    rows, places = map(grants(settings).get, held), (given.target, given.place)
    allowed = {(row or {}).get((place, given.role), "") for row in rows for place in places} - {""}
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


def _builder(settings: Settings) -> str | None:
    """Return the name of the cluster that builds images; None if there is none."""
    keys = [key for key, cluster in settings.clusters.items() if cluster.duty == "build"]
    return settings.cluster_name(keys[0]) if keys else None


DUTY_OF_EACH_IDENTITY = Rule(
    "identity-of-duty",
    "Each cluster's jobs act as the identity of the cluster's duty and as no other, and images are "
    "built on the build cluster alone.",
    "Give the cluster the identity of its duty.",
    {
        COMPUTE: {
            "computeName": lambda s: one_of(
                *map(s.cluster_name, s.clusters), text="a cluster of the stack's settings"
            ),
            "identity.type": "UserAssigned",
            "identity.userAssignedIdentities": by_cluster(
                lambda it, s: only_id(s.names.identity(IDENTITY_OF_DUTY[it.duty]))
            ),
        },
        WORKSPACE: {
            "identity.type": "UserAssigned",
            "identity.userAssignedIdentities": lambda s: only_id(s.names.identity("workspace")),
            "primaryUserAssignedIdentity": lambda s: by_name(s.names.identity("workspace")),
            "imageBuildCompute": _builder,
        },
    },
)


def guid_of(assignment: Resource) -> str:
    return str(input_at(assignment, "roleDefinitionId")).rstrip("/").rsplit("/", 1)[-1].lower()
