"""The key vault, through which a high-business-impact workspace hands credentials to its nodes; and
the customer-managed key in it, with the identity that services use it with.
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
    """A key vault that knows roles instead of access policies, and has no public side."""

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
                # Azure takes no false here, not even where it was never on.
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
        self.register_outputs({})


KEY_BITS = 3072
ROTATE_AFTER = "P1Y"
"""ISO 8601 duration from a version's creation."""


@dataclass(frozen=True)
class CustomerKey:
    """A key that services encrypt with."""

    name: pulumi.Input[str]
    vault_id: pulumi.Input[str]
    vault_uri: pulumi.Input[str]
    uri: pulumi.Input[str]
    """Its address without a version."""
    version_uri: pulumi.Input[str]
    """Its address with one; the workspace takes no other."""
    identity_id: pulumi.Input[str]
    identity_client_id: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]
    """What must exist before a service can use the key."""


class EncryptionKey(Component):
    """A key in the vault, which the vault renews every year."""

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
        self.register_outputs({})

    def used_by(
        self,
        vault_id: pulumi.Input[str],
        vault_uri: pulumi.Input[str],
        identity: managedidentity.UserAssignedIdentity,
        ready: Sequence[pulumi.Resource],
    ) -> CustomerKey:
        """The key, as services are given it.

        Args:
            vault_id: identifier of its vault.
            vault_uri: address of its vault.
            identity: what services use it as.
            ready: the identity's roles on the vault.
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
    """A key that someone else made.

    Args:
        vault_id: its vault.
        version_uri: `https://VAULT/keys/NAME/VERSION`.
        identity: what services use it as.
        ready: the identity's roles on the vault.
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
