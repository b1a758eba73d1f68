"""The key vault, through which a high-business-impact workspace hands credentials to its nodes."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import keyvault

from infra.components.base import Component, Place, guarded
from infra.components.immutable import Fixed

FIXED = (
    Fixed(
        "properties.enablePurgeProtection",
        "once on it stays on; set vault.purge_protection back to true",
        may_be_set_later=True,
    ),
    Fixed(
        "properties.softDeleteRetentionInDays",
        "Azure decides it when a vault is made; set vault.deleted_days back",
    ),
)


@dataclass(frozen=True)
class VaultArgs:
    """The vault of one stack."""

    deleted_days: int
    purge_protection: bool


class Vault(Component):
    """A key vault that knows roles instead of access policies, and has no public side."""

    def __init__(
        self, place: Place, args: VaultArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("vault", opts)
        self.vault = keyvault.Vault(
            "vault",
            vault_name=place.names.vault,
            resource_group_name=place.group,
            location=place.region,
            properties=keyvault.VaultPropertiesArgs(
                tenant_id=place.tenant,
                sku=keyvault.SkuArgs(family=keyvault.SkuFamily.A, name=keyvault.SkuName.STANDARD),
                enable_rbac_authorization=True,
                enable_soft_delete=True,
                soft_delete_retention_in_days=args.deleted_days,
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
            tags=place.tags,
            opts=self.own(protect=place.protected, also=guarded("vault", FIXED)),
        )
        self.register_outputs({})
