"""Rules on permissions and authentication."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from infra.catalog import resource_ids, role_conditions, roles
from infra.naming import DUTY_IDENTITIES, IDENTITIES, RESULTS_CONTAINER
from infra.outputs import CONTEXTS_FOLDER, MODELS_FOLDER, RUNS_FOLDER
from infra.policies.expected import UNSET, as_set, exactly, one_of, optional, table_rule
from infra.policies.facts import Grants, of_leaves
from infra.policies.own_services import targets
from infra.policies.rule import ResourceRule, StackRule, named
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    DATASTORE,
    IDENTITY,
    INSIGHTS,
    LOGS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)
from infra.settings import Settings

_PEOPLE: Final[Mapping[str, Callable[[Settings], str | None]]] = {
    "publishers": lambda settings: settings.people.publishers,
    "scientists": lambda settings: settings.people.scientists,
    "operators": lambda settings: settings.people.operators,
}
"""Groups of people of the trunk."""
OFF, ON = exactly(value=False), exactly(value=True)

NO_KEYS = table_rule(
    "no-keys",
    "Every service authenticates callers by Entra ID only; shared keys, local users, passwords, "
    "anonymous access and access policies are off.",
    "Disable the other authentication method, and give an identity a role instead.",
    {
        STORAGE: {
            "allowSharedKeyAccess": OFF,
            "allowBlobPublicAccess": OFF,
            "isLocalUserEnabled": OFF,
            "isSftpEnabled": OFF,
            "isNfsV3Enabled": optional(OFF),
            "defaultToOAuthAuthentication": ON,
        },
        REGISTRY: {"adminUserEnabled": OFF, "anonymousPullEnabled": OFF},
        VAULT: {
            "properties.tenantId": as_set(lambda settings: settings.subscription.tenant),
            "properties.enableRbacAuthorization": ON,
            "properties.accessPolicies": UNSET,
            "properties.enabledForDeployment": OFF,
            "properties.enabledForDiskEncryption": OFF,
            "properties.enabledForTemplateDeployment": OFF,
        },
        WORKSPACE: {"systemDatastoresAuthMode": exactly("Identity")},
        COMPUTE: {
            "properties.disableLocalAuth": ON,
            "properties.properties.userAccountCredentials": UNSET,
        },
        DATASTORE: {
            "properties.credentials.credentialsType": exactly("None"),
            "properties.serviceDataAccessAuthIdentity": exactly("WorkspaceUserAssignedIdentity"),
        },
        LOGS: {"features.disableLocalAuth": ON},
        INSIGHTS: {"disableLocalAuth": ON},
    },
)

TLS = table_rule(
    "tls-1-2",
    "Storage accounts accept only HTTPS with TLS 1.2 or later, and datastores use HTTPS; no other "
    "service here offers a choice.",
    "Set minimumTlsVersion, enableHttpsTrafficOnly and the datastore's protocol.",
    {
        STORAGE: {"minimumTlsVersion": exactly("TLS1_2"), "enableHttpsTrafficOnly": ON},
        DATASTORE: {"properties.protocol": exactly("https")},
    },
)

JOB_GRANTS: Final[Grants] = {
    ("vault", roles.KEY_VAULT_SECRETS_USER): None,
    ("registry", roles.ACR_PULL): None,
    ("insights", roles.MONITORING_METRICS_PUBLISHER): None,
    ("default/job-logs", roles.BLOB_DATA_CONTRIBUTOR): None,
}
NO_RESULTS: Final[Grants] = {
    ("default", roles.BLOB_DATA_READER): role_conditions.reads_all_but(
        RESULTS_CONTAINER, except_below=[CONTEXTS_FOLDER]
    )
}
NO_RUNS: Final[Grants] = {
    ("default", roles.BLOB_DATA_READER): role_conditions.reads_all_but(
        RESULTS_CONTAINER, except_below=[CONTEXTS_FOLDER, MODELS_FOLDER]
    )
}
JOB_OUTPUTS: Final[Grants] = {
    ("default/job-outputs", roles.BLOB_DATA_CONTRIBUTOR): role_conditions.writes_below("azureml")
}
GRANTS: Final[Mapping[str, Grants]] = {
    "workspace": {
        ("default", roles.CONTRIBUTOR): None,
        ("default", roles.BLOB_DATA_CONTRIBUTOR): None,
        ("default", roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR): None,
        ("data", roles.BLOB_DATA_READER): None,
        ("vault", roles.CONTRIBUTOR): None,
        ("vault", roles.KEY_VAULT_ADMINISTRATOR): None,
        ("registry", roles.CONTRIBUTOR): None,
        ("insights", roles.CONTRIBUTOR): None,
        ("endpoint", roles.READER): None,
        ("workspace", roles.CONTRIBUTOR): None,
    },
    "training": {
        **JOB_GRANTS,
        **JOB_OUTPUTS,
        ("default", roles.BLOB_DATA_READER): None,
        ("default/results", roles.BLOB_DATA_CONTRIBUTOR): role_conditions.writes_below(RUNS_FOLDER),
        ("data/prepared", roles.BLOB_DATA_READER): None,
    },
    "preparation": {
        **JOB_GRANTS,
        **JOB_OUTPUTS,
        **NO_RUNS,
        ("data/raw", roles.BLOB_DATA_READER): None,
        ("data/prepared", roles.BLOB_DATA_CONTRIBUTOR): None,
    },
    "build": {**JOB_GRANTS, **NO_RESULTS, ("registry", roles.ACR_PUSH): None},
    "serving": {
        ("registry", roles.ACR_PULL): None,
        ("default/results", roles.BLOB_DATA_READER): None,
    },
    "publishers": {("data", roles.BLOB_DATA_CONTRIBUTOR): None},
    "scientists": {
        ("default", roles.BLOB_DATA_CONTRIBUTOR): None,
        ("default", roles.FILE_DATA_PRIVILEGED_CONTRIBUTOR): None,
        ("data", roles.BLOB_DATA_READER): None,
        ("workspace", roles.AZUREML_DATA_SCIENTIST): None,
    },
    "operators": {("workspace", roles.AZUREML_COMPUTE_OPERATOR): None},
}
"""Roles that each identity and each group of people may have.

Written down here a second time on purpose: a change in what the program declares is a violation
until somebody has changed this table too.
"""


def people() -> dict[str, Callable[[Settings], str | None]]:
    """Return the groups of people of the trunk and of the leaves; one group may be several."""
    more = {label: group for one in of_leaves() for label, group in one.people.items()}
    return {**_PEOPLE, **more}


def grants() -> dict[str, Grants]:
    """Return the roles of the identities and people of the trunk and of the leaves."""
    more = {holder: held for one in of_leaves() for holder, held in one.grants.items()}
    return {**GRANTS, **more}


JOB_CONTAINERS: Final = re.compile(
    r"([0-9a-f-]{36}-)?azureml(?P<outputs>-blobstore)?(-[0-9a-f-]{36})?"
)
"""Containers that Azure Machine Learning creates for jobs, by the workspace's GUID."""


PRINCIPAL_TYPES = table_rule(
    "principal-types",
    "Every role assignment sets principalType.",
    "Set it: without it, assigning a role to a new identity can fail with PrincipalNotFound.",
    {ASSIGNMENT: {"principalType": one_of("ServicePrincipal", "Group")}},
)


def _unlisted(resource: Resource, _settings: Settings) -> Iterator[str]:
    role = _role(resource) if resource.kind == ASSIGNMENT else roles.READER
    if role not in roles.NAMES:
        yield f"assigns the role {role}, which infra/catalog/roles.py does not list"


NO_OWNER = ResourceRule(
    "no-owner",
    "Every role is listed in infra/catalog/roles.py; none of them allows its holder to assign "
    "roles.",
    "Assign the narrowest role that is sufficient; only the deployer assigns roles.",
    _unlisted,
)


def _assignments(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    principals, services = _principals(resources, settings), targets(resources, settings)
    granted = grants()
    duties = {cluster.duty for cluster in settings.clusters.values()}
    unused = {role for duty, role in DUTY_IDENTITIES.items() if duty not in duties}
    for assignment in of_kind(resources, ASSIGNMENT):
        principal, role = str(input_at(assignment, "principalId")), _role(assignment)
        holder = _holder(assignment, resources, settings)
        gives = f"gives {holder or principal} {roles.NAMES.get(role, role)}"
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
        allowed = [
            granted[duty][one, role]
            for duty in _duties(holder, principal, settings)
            for one in (target, _container(target, scope))
            if (one, role) in granted[duty]
        ]
        condition = input_at(assignment, "condition")
        if not allowed:
            yield assignment, f"{gives} on {scope}, which its duty does not need"
        elif condition not in allowed:
            yield assignment, f"{gives} on {scope} with the condition {condition!r}"


def _container(target: str, scope: str) -> str:
    """Return the target of a role on a container, such as `data/raw`."""
    name = scope.rpartition("/containers/")[2]
    if match := JOB_CONTAINERS.fullmatch(name):
        name = "job-outputs" if match["outputs"] else "job-logs"
    return f"{target}/{name}"


LEAST_PRIVILEGE = StackRule(
    "least-privilege",
    "Each identity and each group of people has only the roles of its duty, each on one service or "
    "container: of the identities, only that of preparation can write training data.",
    "Remove the assignment, or add it to GRANTS in infra/policies/access_rules.py.",
    _assignments,
)


def _holder(assignment: Resource, resources: Sequence[Resource], settings: Settings) -> str | None:
    """Return the duty of the identity, or the group of people, that an assignment is for."""
    principal = input_at(assignment, "principalId")
    for label, group in people().items():
        if principal == group(settings):
            return label
    identities = {
        identity.key: str(input_at(identity, "resourceName"))
        for identity in of_kind(resources, IDENTITY)
    }
    names = [identities.get(key) for key in assignment.options.get("dependsOn", ())]
    more = [role for leaf in settings.leaves for role in leaf.identities(settings)]
    known = (*IDENTITIES, *more)
    return next((duty for duty in known if settings.names.identity(duty) in names), None)


def _duties(holder: str, principal: str, settings: Settings) -> list[str]:
    """Return the duty of an identity, or all duties of a group of people."""
    groups = people()
    held = [label for label, group in groups.items() if group(settings) == principal]
    return held if holder in groups else [holder]


def _principals(resources: Sequence[Resource], settings: Settings) -> dict[str, str]:
    """Return the principal id of each holder: the one that most of its assignments name."""
    named_by: dict[str, Counter[str]] = defaultdict(Counter)
    for assignment in of_kind(resources, ASSIGNMENT):
        holder = _holder(assignment, resources, settings)
        if holder is not None:
            named_by[holder][str(input_at(assignment, "principalId"))] += 1
    return {holder: counted.most_common(1)[0][0] for holder, counted in named_by.items()}


def _computes(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    names = settings.names
    own = {
        settings.cluster_name(key): DUTY_IDENTITIES[cluster.duty]
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
        if [input_at(workspace, "imageBuildCompute")] != builders:
            yield workspace, "its images are not built on the build cluster"


DUTY_OF_EACH_IDENTITY = StackRule(
    "identity-of-duty",
    "Each cluster's jobs act as the identity of the cluster's duty and as no other, and images are "
    "built on the build cluster alone.",
    "Give the cluster the identity of its duty.",
    _computes,
)


def _identities(resource: Resource) -> list[object]:
    """Return the ids of a resource's identities; a state lists them as the keys of a mapping."""
    return list(input_at(resource, "identity.userAssignedIdentities") or ())


def _role(assignment: Resource) -> str:
    """Return the GUID of the role that an assignment gives."""
    return str(input_at(assignment, "roleDefinitionId")).rstrip("/").rsplit("/", 1)[-1].lower()


RULES = (NO_KEYS, TLS, NO_OWNER, PRINCIPAL_TYPES, LEAST_PRIVILEGE, DUTY_OF_EACH_IDENTITY)
