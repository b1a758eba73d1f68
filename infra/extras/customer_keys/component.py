"""The customer-managed key in the vault, and how services use it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import containerregistry, keyvault, managedidentity, storage
from pulumi_azure_native import machinelearningservices as ml

from infra.catalog import roles
from infra.components.access import Identities
from infra.components.base import Component, Service, StackContext
from infra.components.encryption import Encryption, encrypted_services
from infra.components.grants import Scope, grant
from infra.components.key_vault import PinnedKey
from infra.extras.customer_keys.leaf import IDENTITY, KEY, EncryptionSettings
from infra.settings import Settings

KEY_BITS = 3072
ROTATE_AFTER = "P1Y"
"""Time from a version's creation, as an ISO 8601 duration."""


@dataclass(frozen=True)
class CustomerKey:
    """A key for encryption at rest."""

    name: pulumi.Input[str]
    vault_id: pulumi.Input[str]
    vault_uri: pulumi.Input[str]
    uri: pulumi.Input[str]
    """URI of the key without a version."""
    version_uri: pulumi.Input[str]
    """URI of the key with a version; the workspace accepts no other."""
    identity_id: pulumi.Input[str]
    identity_client_id: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]
    """Resources that must exist before a service can use the key."""
    service_side: bool
    """Whether the workspace's metadata stay in Microsoft's subscription."""


class EncryptionKey(Component):
    """A key in the vault, which the vault rotates every year."""

    def __init__(self, context: StackContext, vault: pulumi.Input[str]) -> None:
        super().__init__("encryption")
        kinds = keyvault.KeyRotationPolicyActionType
        self.key = PinnedKey(
            "encryption",
            key_name=KEY(context.names),
            vault_name=vault,
            resource_group_name=context.group,
            properties=keyvault.KeyPropertiesArgs(
                kty=keyvault.JsonWebKeyType.RSA,
                key_size=KEY_BITS,
                key_ops=["wrapKey", "unwrapKey"],
                rotation_policy=keyvault.RotationPolicyArgs(
                    lifetime_actions=[
                        keyvault.LifetimeActionArgs(
                            action=keyvault.ActionArgs(type=kinds.ROTATE),
                            trigger=keyvault.TriggerArgs(time_after_create=ROTATE_AFTER),
                        )
                    ]
                ),
            ),
            tags=context.tags,
            opts=self.child_options(protect=context.protected),
        )
        self.register_outputs({"key": self.key.key_uri})


def encryption(
    settings: Settings, context: StackContext, vault: Service, identities: Identities
) -> Encryption:
    """Return the encryption with a customer-managed key, declared in the vault or existing."""
    own = settings.of(EncryptionSettings)
    key_vault = own.key_vault or vault.id
    in_identities = pulumi.ResourceOptions(parent=identities)
    granted: list[pulumi.Resource] = []
    if own.identity is None:
        identity = identities.by_role[IDENTITY]
        role = [roles.KEY_VAULT_CRYPTO_SERVICE_ENCRYPTION_USER]
        label = "key-vault" if own.key_vault else "vault"
        principal, scope = identities.principal(IDENTITY), Scope(label, key_vault)
        granted = grant(context, principal, scope, role, in_identities)
    else:
        # Its owner has given it the role.
        identity = managedidentity.UserAssignedIdentity.get(
            f"identity-{IDENTITY}", own.identity, in_identities
        )
    if own.key_uri is None:
        key = EncryptionKey(context, vault.name).key
        return KeyEncryption(
            CustomerKey(
                name=key.name,
                vault_id=vault.id,
                vault_uri=vault.address,
                uri=key.key_uri,
                version_uri=key.key_uri_with_version,
                identity_id=identity.id,
                identity_client_id=identity.client_id,
                ready=[key, *granted],
                service_side=own.service_side,
            )
        )
    host, name, _ = own.key_uri.removeprefix("https://").replace("/keys/", "/").split("/")
    return KeyEncryption(
        CustomerKey(
            name=name,
            vault_id=key_vault,
            vault_uri=f"https://{host}/",
            uri=f"https://{host}/keys/{name}",
            version_uri=own.key_uri,
            identity_id=identity.id,
            identity_client_id=identity.client_id,
            ready=granted,
            service_side=own.service_side,
        )
    )


class KeyEncryption(Encryption):
    """Encryption with a customer-managed key; without a version, services follow its rotation."""

    def __init__(self, key: CustomerKey) -> None:
        self._key = key
        self.ready = key.ready

    def account(self, *, files: bool) -> storage.EncryptionArgs:
        """Return the encryption of a storage account, in addition to that of its infrastructure."""
        return storage.EncryptionArgs(
            key_source=storage.KeySource.MICROSOFT_KEYVAULT,
            require_infrastructure_encryption=True,
            services=encrypted_services(files=files),
            encryption_identity=storage.EncryptionIdentityArgs(
                encryption_user_assigned_identity=self._key.identity_id
            ),
            key_vault_properties=storage.KeyVaultPropertiesArgs(
                key_name=self._key.name, key_vault_uri=self._key.vault_uri
            ),
        )

    def account_identity(self) -> storage.IdentityArgs:
        """Return the identity with which a storage account reads its key."""
        return storage.IdentityArgs(
            type=storage.IdentityType.USER_ASSIGNED,
            user_assigned_identities=[self._key.identity_id],
        )

    def registry(self) -> containerregistry.EncryptionPropertyArgs:
        """Return the encryption of the registry."""
        return containerregistry.EncryptionPropertyArgs(
            status=containerregistry.EncryptionStatus.ENABLED,
            key_vault_properties=containerregistry.KeyVaultPropertiesArgs(
                identity=self._key.identity_client_id, key_identifier=self._key.uri
            ),
        )

    def registry_identity(self) -> containerregistry.IdentityPropertiesArgs:
        """Return the identity with which the registry reads its key."""
        return containerregistry.IdentityPropertiesArgs(
            type=containerregistry.ResourceIdentityType.USER_ASSIGNED,
            user_assigned_identities=pulumi.Output.from_input(self._key.identity_id).apply(
                lambda identity: {identity: containerregistry.UserIdentityPropertiesArgs()}
            ),
        )

    @property
    def service_side(self) -> bool | None:
        """Whether the workspace's encrypted metadata stay in Microsoft's subscription."""
        return self._key.service_side or None

    def workspace(self) -> ml.EncryptionPropertyArgs:
        """Return the encryption of the workspace, which refers to one version of the key."""
        return ml.EncryptionPropertyArgs(
            status=ml.EncryptionStatus.ENABLED,
            key_vault_properties=ml.KeyVaultPropertiesArgs(
                key_vault_arm_id=self._key.vault_id, key_identifier=self._key.version_uri
            ),
            identity=ml.IdentityForCmkArgs(user_assigned_identity=self._key.identity_id),
        )
