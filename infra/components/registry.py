"""The container registry for the images of jobs."""

from dataclasses import dataclass

from pulumi_azure_native import containerregistry as registry

from infra.components.base import Component, StackContext
from infra.components.encryption import Encryption
from infra.components.immutable import ImmutableProperty, refuse_changes

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
    encryption: Encryption


class Registry(Component):
    """A Premium registry without an admin user and without a public endpoint.

    Only Premium has private endpoints. With public access disabled, address rules have no effect;
    trusted services such as Azure Machine Learning's own may bypass. Quarantine is off: it would
    hide every image until someone releases it.
    """

    def __init__(self, context: StackContext, args: RegistryArgs) -> None:
        super().__init__("registry")
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
            identity=args.encryption.registry_identity(),
            encryption=args.encryption.registry(),
            tags=context.tags,
            opts=self.child_options(
                depends_on=args.encryption.ready,
                protect=context.protected,
                extra=refuse_changes("registry", IMMUTABLE),
            ),
        )
        self.register_outputs({"registry": self.registry.id})
