"""The key vault, through which a high-business-impact workspace passes credentials to its nodes."""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class VaultArgs:
    """The vault of one stack."""

    soft_delete_retention_days: int
    purge_protection: bool


class Vault(Component):
    """A key vault with role-based access instead of access policies, and no public endpoint."""

    def __init__(self, context: StackContext, args: VaultArgs) -> None:
        super().__init__("vault")
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
