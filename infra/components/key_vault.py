"""The key vault, through which a high-business-impact workspace passes credentials to its nodes."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import keyvault

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


class _Pinned(pulumi.CustomResource):
    """A resource of Key Vault by API version 2026-02-01.

    azure-native 3.29 declares vaults by 2024-11-01, and Azure ends all versions before this one on
    27 February 2027 (Azure/azure-powershell 30098). The provider knows each version by a type with
    the version in its module: of these it makes its packages of single versions. A vault that was
    deployed by another version stays, as an alias names it. Delete this class once azure-native
    declares vaults by this version or a newer one.
    """

    def __init__(
        self,
        type_: str,
        name: str,
        props: pulumi.Inputs | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        older = pulumi.ResourceOptions(aliases=[pulumi.Alias(type_=type_)])
        pinned = type_.replace(":keyvault:", ":keyvault/v20260201:")
        super().__init__(pinned, name, props, pulumi.ResourceOptions.merge(opts, older))


# The classes of azure-native register their type with the next class, which is `_Pinned`.
class PinnedVault(keyvault.Vault, _Pinned):
    """A vault."""


class PinnedKey(keyvault.Key, _Pinned):
    """A key in a vault."""


@dataclass(frozen=True)
class VaultArgs:
    """The vault of one stack."""

    soft_delete_retention_days: int
    purge_protection: bool


class Vault(Component):
    """A key vault with role-based access instead of access policies, and no public endpoint."""

    def __init__(self, context: StackContext, args: VaultArgs) -> None:
        super().__init__("vault")
        self.vault = PinnedVault(
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
