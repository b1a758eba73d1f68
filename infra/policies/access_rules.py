"""Rules on permissions and authentication."""

import re
from collections.abc import Iterator, Sequence

from infra.catalog import roles
from infra.policies.rule import Posture, ResourceRule, StackRule, named, wants
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

KEYLESS: dict[str, dict[str, object]] = {
    STORAGE: {"allowSharedKeyAccess": False, "allowBlobPublicAccess": False},
    REGISTRY: {"adminUserEnabled": False, "anonymousPullEnabled": False},
    VAULT: {"properties.enableRbacAuthorization": True},
    WORKSPACE: {"systemDatastoresAuthMode": "Identity"},
    COMPUTE: {"properties.disableLocalAuth": True},
    DATASTORE: {"properties.credentials.credentialsType": "None"},
    LOGS: {"features.disableLocalAuth": True},
    INSIGHTS: {"disableLocalAuth": True},
}
"""Inputs that make each service accept Entra identities only."""

ADMINISTRATORS = {
    roles.OWNER: "Owner",
    "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9": "User Access Administrator",
    "f58310d9-a9f6-439a-9e8d-f62e7b41a168": "Role Based Access Control Administrator",
}
"""Built-in roles that can assign roles, by GUID."""

READS_BLOBS = frozenset({roles.READER, roles.BLOB_DATA_READER})
"""Roles that can change neither data nor role assignments."""

WIDE = re.compile(
    r"(/subscriptions/[^/]+(/resourceGroups/[^/]+)?"
    r"|/providers/Microsoft\.Management/managementGroups/[^/]+|)/?",
    re.IGNORECASE,
)
"""Scopes that include the training data account, whatever its name."""


def _keys(resource: Resource, _posture: Posture) -> Iterator[str]:
    for path, expected in KEYLESS.get(resource.kind, {}).items():
        yield from wants(resource, path, expected)


NO_KEYS = ResourceRule(
    "no-keys",
    "Every service authenticates callers by Entra ID only; shared keys, passwords, anonymous "
    "access and access policies are off.",
    "Disable the other authentication method, and give an identity a role instead.",
    _keys,
)


def _transport(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind == STORAGE:
        yield from wants(resource, "minimumTlsVersion", "TLS1_2")
        yield from wants(resource, "enableHttpsTrafficOnly", expected=True)


TLS = ResourceRule(
    "tls-1-2",
    "Storage accounts accept only HTTPS with TLS 1.2 or later; no other service here offers a "
    "choice.",
    "Set minimumTlsVersion and enableHttpsTrafficOnly.",
    _transport,
)


def _administrators(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind != ASSIGNMENT:
        return
    role = _role(resource)
    if role in ADMINISTRATORS:
        yield f"assigns {ADMINISTRATORS[role]}, which can assign every other role"
    elif role not in roles.NAMES:
        yield f"assigns the role {role}, which infra/catalog/roles.py does not list"


NO_OWNER = ResourceRule(
    "no-owner",
    "No role assignment of the stack allows its holder to assign roles, and every role is listed "
    "in infra/catalog/roles.py.",
    "Assign the narrowest role that is sufficient; only the deployer assigns roles.",
    _administrators,
)


def _principals(resource: Resource, _posture: Posture) -> Iterator[str]:
    if resource.kind == ASSIGNMENT and not input_at(resource, "principalType"):
        yield "principalType is not set"


PRINCIPAL_TYPES = ResourceRule(
    "principal-types",
    "Every role assignment sets principalType.",
    "Set it: without it, assigning a role to a new identity can fail with PrincipalNotFound.",
    _principals,
)


def _writers(
    resources: Sequence[Resource], posture: Posture
) -> Iterator[tuple[Resource | None, str]]:
    accounts = training_accounts(resources)
    identities = {
        identity.key: str(input_at(identity, "resourceName"))
        for identity in of_kind(resources, IDENTITY)
    }
    for assignment in of_kind(resources, ASSIGNMENT):
        scope, role = str(input_at(assignment, "scope")), _role(assignment)
        account = next((name for name in accounts if covers(scope, name)), None)
        if account is None or role in READS_BLOBS:
            continue
        holders = [
            identities[key] for key in assignment.options.get("dependsOn", ()) if key in identities
        ] or [str(input_at(assignment, "principalId"))]
        allowed = {posture.preparation, *posture.publishers}
        if role == roles.BLOB_DATA_CONTRIBUTOR and set(holders) <= allowed:
            continue
        role_name = roles.NAMES.get(role, role)
        yield (
            assignment,
            f"gives {', '.join(holders)} {role_name} on {scope}, which includes {account}",
        )


ONLY_PUBLISHERS_WRITE = StackRule(
    "only-publishers-write",
    "Only the publishers' group and the preparation identity can write training data, as Storage "
    "Blob Data Contributor; everyone else has at most read access.",
    "Assign Storage Blob Data Reader, or add the group to the stack's publishers.",
    _writers,
)


def training_accounts(resources: Sequence[Resource]) -> frozenset[str]:
    """Return the names of the storage accounts with training data: the Premium accounts and those
    that datastores refer to, except the workspace's default account.
    """
    own = {
        str(input_at(workspace, "storageAccount")).rsplit("/", 1)[-1].lower()
        for workspace in of_kind(resources, WORKSPACE)
    }
    premium = {
        str(input_at(account, "accountName"))
        for account in of_kind(resources, STORAGE)
        if input_at(account, "kind") == "BlockBlobStorage"
    }
    behind = {
        str(input_at(store, "properties.accountName")) for store in of_kind(resources, DATASTORE)
    }
    return frozenset(name for name in premium | behind if name.lower() not in own)


def covers(scope: str, account: str) -> bool:
    """Check whether a role on this scope applies to the account, or to something in it."""
    return bool(WIDE.fullmatch(scope)) or named(scope, "Microsoft.Storage/storageAccounts", account)


def _role(assignment: Resource) -> str:
    """Return the GUID of the role that an assignment gives."""
    return str(input_at(assignment, "roleDefinitionId")).rstrip("/").rsplit("/", 1)[-1].lower()


RULES = (NO_KEYS, TLS, NO_OWNER, PRINCIPAL_TYPES, ONLY_PUBLISHERS_WRITE)
