"""The key vault, through which a high-business-impact workspace passes credentials to its nodes;
and the customer-managed key in it, with the identity that services use it with.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import keyvault, managedidentity

from infra.components.base import Component, StackContext
from infra.components.immutable import ImmutableProperty, refuse_changes

IMMUTABLE = (
    ImmutableProperty(
        "properties.enablePurgeProtection",
        "it cannot be disabled once enabled; set vault.purge_protection back to true",
        may_be_set_later=True,
    ),
    ImmutableProperty(
        "properties.softDeleteRetentionInDays",
        "it can only be set at creation; restore vault.soft_delete_retention_days",
    ),
)


@dataclass(frozen=True)
class VaultArgs:
    """The vault of one stack."""

    soft_delete_retention_days: int
    purge_protection: bool


class Vault(Component):
    """A key vault with role-based access instead of access policies, and no public endpoint."""

    def __init__(
        self, context: StackContext, args: VaultArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("vault", opts)
        self.vault = keyvault.Vault(
            "vault",
            vault_name=context.names.vault,
            resource_group_name=context.group,
            location=context.region,
            properties=keyvault.VaultPropertiesArgs(
                tenant_id=context.tenant,
                sku=keyvault.SkuArgs(family=keyvault.SkuFamily.A, name=keyvault.SkuName.STANDARD),
                enable_rbac_authorization=True,
                enable_soft_delete=True,
                soft_delete_retention_in_days=args.soft_delete_retention_days,
                # Azure does not accept false here, not even if it was never on.
                enable_purge_protection=True if args.purge_protection else None,
                enabled_for_deployment=False,
                enabled_for_disk_encryption=False,
                enabled_for_template_deployment=False,
                public_network_access="disabled",
                network_acls=keyvault.NetworkRuleSetArgs(
                    bypass=keyvault.NetworkRuleBypassOptions.AZURE_SERVICES,
                    default_action=keyvault.NetworkRuleAction.DENY,
                ),
            ),
            tags=context.tags,
            opts=self.child_options(
                protect=context.protected, extra=refuse_changes("vault", IMMUTABLE)
            ),
        )
        self.register_outputs({"vault": self.vault.id})


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


class EncryptionKey(Component):
    """A key in the vault, which the vault rotates every year."""

    def __init__(
        self,
        context: StackContext,
        vault: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encryption", opts)
        kinds = keyvault.KeyRotationPolicyActionType
        self.key = keyvault.Key(
            "encryption",
            key_name=context.names.encryption_key,
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

    def used_by(
        self,
        vault_id: pulumi.Input[str],
        vault_uri: pulumi.Input[str],
        identity: managedidentity.UserAssignedIdentity,
        ready: Sequence[pulumi.Resource],
    ) -> CustomerKey:
        """Return the key as services refer to it.

        Args:
            vault_id: Id of its vault.
            vault_uri: URI of its vault.
            identity: Identity that services use the key with.
            ready: Role assignments of the identity on the vault.
        """
        return CustomerKey(
            name=self.key.name,
            vault_id=vault_id,
            vault_uri=vault_uri,
            uri=self.key.key_uri,
            version_uri=self.key.key_uri_with_version,
            identity_id=identity.id,
            identity_client_id=identity.client_id,
            ready=[self.key, *ready],
        )


def existing_key(
    vault_id: pulumi.Input[str],
    version_uri: str,
    identity: managedidentity.UserAssignedIdentity,
    ready: Sequence[pulumi.Resource],
) -> CustomerKey:
    """Return a key that the stack does not manage.

    Args:
        vault_id: Id of its vault.
        version_uri: `https://VAULT/keys/NAME/VERSION`.
        identity: Identity that services use the key with.
        ready: Role assignments of the identity on the vault.
    """
    vault, name, _ = version_uri.removeprefix("https://").replace("/keys/", "/").split("/")
    return CustomerKey(
        name=name,
        vault_id=vault_id,
        vault_uri=f"https://{vault}/",
        uri=f"https://{vault}/keys/{name}",
        version_uri=version_uri,
        identity_id=identity.id,
        identity_client_id=identity.client_id,
        ready=ready,
    )
