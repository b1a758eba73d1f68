"""The container registry for the images of jobs."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import containerregistry as registry

from infra.components.base import Component, StackContext
from infra.components.immutable import ImmutableProperty, refuse_changes
from infra.components.key_vault import CustomerKey

IMMUTABLE = (
    ImmutableProperty(
        "zoneRedundancy",
        "it can only be set at creation, and the workspace fails without this registry; restore the"
        " old value",
    ),
    ImmutableProperty(
        "encryption.status",
        "it can only be set at creation, and the workspace fails without this registry; restore the"
        " old value",
    ),
)


@dataclass(frozen=True)
class RegistryArgs:
    """The registry of one stack."""

    untagged_retention_days: int
    zone_redundant: bool
    key: CustomerKey | None = None


class Registry(Component):
    """A Premium registry without an admin user and without a public endpoint.

    Only Premium has private endpoints. With public access disabled, address rules have no effect;
    trusted services such as Azure Machine Learning's own may bypass. Quarantine is off: it would
    hide every image until someone releases it.
    """

    def __init__(
        self, context: StackContext, args: RegistryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("registry", opts)
        zones = registry.ZoneRedundancy
        self.registry = registry.Registry(
            "registry",
            registry_name=context.names.registry,
            resource_group_name=context.group,
            location=context.region,
            sku=registry.SkuArgs(name=registry.SkuName.PREMIUM),
            admin_user_enabled=False,
            anonymous_pull_enabled=False,
            data_endpoint_enabled=True,
            public_network_access=registry.PublicNetworkAccess.DISABLED,
            network_rule_bypass_options=registry.NetworkRuleBypassOptions.AZURE_SERVICES,
            zone_redundancy=zones.ENABLED if args.zone_redundant else zones.DISABLED,
            policies=registry.PoliciesArgs(
                retention_policy=registry.RetentionPolicyArgs(
                    days=args.untagged_retention_days, status=registry.PolicyStatus.ENABLED
                ),
                quarantine_policy=registry.QuarantinePolicyArgs(
                    status=registry.PolicyStatus.DISABLED
                ),
                export_policy=registry.ExportPolicyArgs(
                    status=registry.ExportPolicyStatus.DISABLED
                ),
            ),
            identity=_identity(args.key),
            encryption=_encryption(args.key),
            tags=context.tags,
            opts=self.child_options(
                depends_on=args.key.ready if args.key else (),
                protect=context.protected,
                extra=refuse_changes("registry", IMMUTABLE),
            ),
        )
        self.register_outputs({"registry": self.registry.id})


def _identity(key: CustomerKey | None) -> registry.IdentityPropertiesArgs | None:
    if key is None:
        return None
    return registry.IdentityPropertiesArgs(
        type=registry.ResourceIdentityType.USER_ASSIGNED,
        user_assigned_identities=pulumi.Output.from_input(key.identity_id).apply(
            lambda identity: {identity: registry.UserIdentityPropertiesArgs()}
        ),
    )


def _encryption(key: CustomerKey | None) -> registry.EncryptionPropertyArgs | None:
    if key is None:
        return None
    return registry.EncryptionPropertyArgs(
        status=registry.EncryptionStatus.ENABLED,
        # Without a version the registry follows the key's rotation.
        key_vault_properties=registry.KeyVaultPropertiesArgs(
            identity=key.identity_client_id, key_identifier=key.uri
        ),
    )
