"""Pulumi's state and the identities of the workflows, as requests to Resource Manager. Pure.

The storage account and the key vault answer publicly, and only to Entra identities with a role on
the container or the key: a deployer of a private platform is outside of its network, which does not
exist yet. The account has no keys, and keeps deleted and overwritten blobs; the vault cannot be
purged.

A workflow's identity trusts the tokens that GitHub signs for one repository and one occasion, which
the subject of the token names: a pull request, the main branch or an environment (GitHub, "OpenID
Connect reference"). So there is no secret, and no right to Entra's directory is needed.

API versions and properties as in Azure's reference of each.
"""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from infra.catalog import roles as catalog
from infra.prerequisites import Prerequisites

Redundancy = Literal["LRS", "ZRS", "GRS"]

DELETED_DAYS: Final = 90
"""Days that a deleted or overwritten state can be restored."""
CRYPTO_USER: Final = "12338af0-0e69-4776-bea7-57ae8d297424"
"""Encrypts and decrypts with a key. No built-in role only decrypts."""
ROLE_ADMINISTRATOR: Final = "f58310d9-a9f6-439a-9e8d-f62e7b41a168"
ROLES: Final = {
    **catalog.NAMES,
    CRYPTO_USER: "Key Vault Crypto User",
    ROLE_ADMINISTRATOR: "Role Based Access Control Administrator",
}
"""Names by the GUIDs of Azure's built-in roles."""

_GROUPS, _STORAGE, _VAULTS = "2021-04-01", "2023-05-01", "2026-02-01"
_IDENTITIES, _ASSIGNMENTS = "2023-01-31", "2022-04-01"
_NAME: Final = "pulumi"
"""Name of the container, and of the key."""


@dataclass(frozen=True)
class WantedResource:
    """A resource that has to exist."""

    id: str
    api_version: str
    body: Mapping[str, Any]
    words: str
    """Its kind and purpose, for messages."""


@dataclass(frozen=True)
class Workflows:
    """Workflows that share an identity."""

    about: str
    """Their purpose, for messages."""
    occasions: Mapping[str, str]
    """Ends of the subjects of tokens that the identity trusts, by the names of its credentials."""
    writes_state: bool
    roles: tuple[str, ...]
    """GUIDs of its roles on everything that the stack declares."""


_MAIN: Final = {"main": "ref:refs/heads/main"}
WORKFLOWS: Final[Mapping[str, Workflows]] = {
    "preview": Workflows(
        "previews and the drift check",
        {"pull-request": "pull_request", **_MAIN},
        writes_state=False,
        roles=(catalog.READER,),
    ),
    "up": Workflows(
        "deployments",
        {"environment": "environment:{stack}"},
        writes_state=True,
        roles=(catalog.CONTRIBUTOR, ROLE_ADMINISTRATOR),
    ),
    # The stack's group of people who may submit jobs gives the rights to do so.
    "jobs": Workflows("submissions and supervision", _MAIN, writes_state=False, roles=()),
}
"""By the last part of the name of their identity."""


class StateNames:
    """Ids and addresses of everything around Pulumi's state, the same for all stacks of a prefix.

    Args:
        prefix: Common beginning of all names of the project.
        subscription: Id of the subscription.
    """

    def __init__(self, prefix: str, subscription: str) -> None:
        # Six letters, as both names are unique in all of Azure.
        digest = hashlib.sha256(f"{prefix}\n{subscription.lower()}".encode()).digest()
        letters = "".join(chr(ord("a") + byte % 26) for byte in digest[:6])
        self.prefix = prefix
        self.account, self.vault = f"{prefix}state{letters}", f"{prefix}-state-{letters}"
        self.group_id = f"/subscriptions/{subscription}/resourceGroups/{prefix}-state-rg"
        providers = f"{self.group_id}/providers"
        self.account_id = f"{providers}/Microsoft.Storage/storageAccounts/{self.account}"
        self.container_id = f"{self.account_id}/blobServices/default/containers/{_NAME}"
        self.vault_id = f"{providers}/Microsoft.KeyVault/vaults/{self.vault}"
        self.key_id = f"{self.vault_id}/keys/{_NAME}"
        self.identities = f"{providers}/Microsoft.ManagedIdentity/userAssignedIdentities"
        self.backend = f"azblob://{_NAME}?storage_account={self.account}"
        """Address of the backend for `pulumi login` and PULUMI_BACKEND_URL."""
        self.secrets_provider = f"azurekeyvault://{self.vault}.vault.azure.net/keys/{_NAME}"


def state(names: StateNames, needs: Prerequisites, redundancy: Redundancy) -> list[WantedResource]:
    """Return the resources that Pulumi's state needs, in their order."""
    placed = {"location": needs.region, "tags": dict(needs.tags)}
    restorable = {"enabled": True, "days": DELETED_DAYS}
    account = {
        "allowSharedKeyAccess": False,
        "defaultToOAuthAuthentication": True,
        "allowBlobPublicAccess": False,
        "allowCrossTenantReplication": False,
        "minimumTlsVersion": "TLS1_2",
        "supportsHttpsTrafficOnly": True,
        "publicNetworkAccess": "Enabled",
    }
    blobs = {
        "isVersioningEnabled": True,
        "deleteRetentionPolicy": restorable,
        "containerDeleteRetentionPolicy": restorable,
    }
    vault = {
        "tenantId": needs.tenant_id,
        "sku": {"family": "A", "name": "standard"},
        "enableRbacAuthorization": True,
        "enableSoftDelete": True,
        "softDeleteRetentionInDays": DELETED_DAYS,
        "enablePurgeProtection": True,
        "publicNetworkAccess": "Enabled",
    }
    operations = ["encrypt", "decrypt", "wrapKey", "unwrapKey"]
    key = {"kty": "RSA", "keySize": 3072, "keyOps": operations}
    sku = {"kind": "StorageV2", "sku": {"name": f"Standard_{redundancy}"}}
    open_to = "a public endpoint, for Entra identities with a role"
    return [
        WantedResource(names.group_id, _GROUPS, placed, "resource group"),
        WantedResource(
            names.account_id,
            _STORAGE,
            {**placed, **sku, "properties": account},
            f"storage account without keys; {open_to}",
        ),
        WantedResource(
            f"{names.account_id}/blobServices/default",
            _STORAGE,
            {"properties": blobs},
            f"its versions of blobs; deleted ones can be restored for {DELETED_DAYS} days",
        ),
        WantedResource(
            names.container_id,
            _STORAGE,
            {"properties": {"publicAccess": "None"}},
            "container of the state",
        ),
        WantedResource(
            names.vault_id,
            _VAULTS,
            {**placed, "properties": vault},
            f"key vault with purge protection; {open_to}",
        ),
        WantedResource(
            names.key_id,
            _VAULTS,
            {"properties": key},
            "key that encrypts the secrets in the state",
        ),
    ]


def identity(
    purpose: str, repository: str, names: StateNames, needs: Prerequisites
) -> list[WantedResource]:
    """Return the identity of some workflows of one stack, and its trusts, in order: Azure
    refuses credentials of one identity that are created at the same time.

    Args:
        purpose: Key of the workflows in `WORKFLOWS`.
        repository: Repository as the subjects of its tokens name it: ORGANISATION/REPOSITORY, or
            with immutable ids ORGANISATION@ID/REPOSITORY@ID.
        names: Names around Pulumi's state, in whose group the identities are.
        needs: Prerequisites of the stack. Its name is also that of the environment in GitHub
            whose approval `up` needs.
    """
    workflows = WORKFLOWS[purpose]
    own = f"{names.identities}/{names.prefix}-{needs.stack}-{purpose}"
    body = {"location": needs.region, "tags": dict(needs.tags)}
    resources = [WantedResource(own, _IDENTITIES, body, f"identity for {workflows.about}")]
    for name, occasion in workflows.occasions.items():
        subject = f"repo:{repository}:{occasion.format(stack=needs.stack)}"
        trust = {
            "issuer": "https://token.actions.githubusercontent.com",
            "subject": subject,
            "audiences": ["api://AzureADTokenExchange"],
        }
        credential = f"{own}/federatedIdentityCredentials/{name}"
        words = f"trust in GitHub's tokens for {subject}"
        resources.append(WantedResource(credential, _IDENTITIES, {"properties": trust}, words))
    return resources


def identity_roles(
    purpose: str, principal: str, names: StateNames, needs: Prerequisites
) -> list[WantedResource]:
    """Return the roles of an identity."""
    workflows, scope = WORKFLOWS[purpose], stack_scope(needs)
    who = f"identity {names.prefix}-{needs.stack}-{purpose}"
    # A new identity needs its type, because not every replica of the directory knows it yet.
    kind = {"principalType": "ServicePrincipal"}
    limited = {**kind, "condition": only_roles(needs), "conditionVersion": "2.0"}
    return [
        *state_roles(names, principal, who, writes=workflows.writes_state, more=kind),
        *(
            assignment(scope, principal, role, who, limited if role == ROLE_ADMINISTRATOR else kind)
            for role in workflows.roles
        ),
    ]


def state_roles(
    names: StateNames,
    principal: str,
    who: str,
    *,
    writes: bool,
    more: Mapping[str, str] | None = None,
) -> list[WantedResource]:
    """Return the roles with which a principal reads Pulumi's state, or writes it."""
    blobs = catalog.BLOB_DATA_CONTRIBUTOR if writes else catalog.BLOB_DATA_READER
    return [
        assignment(names.container_id, principal, blobs, who, more),
        assignment(names.key_id, principal, CRYPTO_USER, who, more),
    ]


def assignment(
    scope: str, principal: str, role: str, who: str, more: Mapping[str, str] | None = None
) -> WantedResource:
    """Return a role assignment.

    Args:
        scope: Id of the resource that the role is assigned on.
        principal: Object id of who gets the role.
        role: GUID of the role.
        who: Who gets it, for people.
        more: Further properties: the type of the principal, a condition.
    """
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.lower()}/{principal}/{role}")
    definitions = "providers/Microsoft.Authorization/roleDefinitions"
    properties = {
        "roleDefinitionId": f"/subscriptions/{scope.split('/')[2]}/{definitions}/{role}",
        "principalId": principal,
        **(more or {}),
    }
    limit = ", with a condition" if "condition" in properties else ""
    return WantedResource(
        f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}",
        _ASSIGNMENTS,
        {"properties": properties},
        f"role {ROLES[role]} of {who} on {scope.rpartition('/')[2]}{limit}",
    )


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
    attribute = "Microsoft.Authorization/roleAssignments:RoleDefinitionId"
    return " AND ".join(
        f"((!(ActionMatches{{'Microsoft.Authorization/roleAssignments/{action}'}})) OR"
        f" (@{source}[{attribute}] ForAnyOfAnyValues:GuidEquals {{{', '.join(needs.roles)}}}))"
        for action, source in (("write", "Request"), ("delete", "Resource"))
    )


def holds(existing: object, wanted: object) -> bool:
    """Check whether an existing resource has everything that is wanted, and maybe more.

    Azure returns some texts in another spelling. Only a subject counts as it is written, because
    Entra compares it with upper and lower case.
    """
    if isinstance(wanted, Mapping):
        return isinstance(existing, Mapping) and all(
            existing.get(name) == value if name == "subject" else holds(existing.get(name), value)
            for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(existing, list) and sorted(existing) == sorted(wanted)
    return str(existing).lower() == str(wanted).lower()
