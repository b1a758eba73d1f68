"""Storage: one hardened account, its containers, and the lifecycle of old blobs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import storage

from infra.components.base import Component, StackContext
from infra.components.encryption import Encryption
from infra.components.immutable import ImmutableProperty, refuse_changes

SAS_LIFETIME = "1.00:00:00"
"""Longest lifetime of a shared access signature (days.hours:minutes:seconds). Without account keys,
only users and identities can sign one."""

STUDIO_ORIGINS = (
    "https://mlworkspace.azure.ai",
    "https://ml.azure.com",
    "https://*.ml.azure.com",
    "https://ai.azure.com",
    "https://*.ai.azure.com",
)
"""Origins that Azure Machine Learning adds to its default account's CORS rules by itself; declared,
so that no update removes them."""

IMMUTABLE = (
    ImmutableProperty(
        "kind",
        "it can only be set at creation; declare another account and copy the data",
    ),
    ImmutableProperty(
        "encryption.requireInfrastructureEncryption",
        "it can only be set at creation; declare another account and copy the data",
    ),
)


@dataclass(frozen=True)
class LifecycleRule:
    """What happens to blobs under some prefixes, in days since their last change."""

    name: str
    prefixes: Sequence[str]
    """Prefixes of blobs, each starting with a container's name or the beginning of one."""
    cool_after: int | None = None
    """Days until blobs move to the cool tier; None in a premium account, which has no tiers."""
    delete_after: int | None = None


@dataclass(frozen=True)
class StorageArgs:
    """One storage account."""

    label: str
    """Short name in the stack: `default` or `data`."""
    account: str
    kind: storage.Kind
    sku: storage.SkuName
    containers: Sequence[str]
    soft_delete_retention_days: int
    encryption: Encryption
    lifecycle_rules: Sequence[LifecycleRule] = ()
    allowed: Sequence[str] = ()
    """Public addresses or ranges that may reach it."""
    public: bool = False
    """Whether it has a public endpoint, for Azure's trusted services and the allowed addresses."""
    files: bool = False
    """Whether it serves file shares and the studio's pages, as the workspace's default account
    does."""


class Storage(Component):
    """A storage account without keys, encrypted twice, and closed to the internet.

    Shared keys are disabled, so that access needs a role assignment; the workspace's system
    datastores therefore use identities. Infrastructure encryption can only be chosen when an
    account is created. Versioning is off: rewriting a data set would keep both versions and bill
    for them; blobs deleted by mistake can be restored from soft delete.
    """

    def __init__(self, context: StackContext, args: StorageArgs) -> None:
        super().__init__(f"storage-{args.label}")
        self.account = storage.StorageAccount(
            f"storage-{args.label}",
            account_name=args.account,
            resource_group_name=context.group,
            location=context.region,
            kind=args.kind,
            sku=storage.SkuArgs(name=args.sku),
            # A premium account has no tiers.
            access_tier=storage.AccessTier.HOT if args.kind == storage.Kind.STORAGE_V2 else None,
            is_hns_enabled=False,
            minimum_tls_version=storage.MinimumTlsVersion.TLS1_2,
            enable_https_traffic_only=True,
            allow_blob_public_access=False,
            allow_cross_tenant_replication=False,
            allow_shared_key_access=False,
            default_to_o_auth_authentication=True,
            allowed_copy_scope=storage.AllowedCopyScope.AAD,
            is_local_user_enabled=False,
            is_sftp_enabled=False,
            public_network_access=(
                storage.PublicNetworkAccess.ENABLED
                if args.public
                else storage.PublicNetworkAccess.DISABLED
            ),
            network_rule_set=storage.NetworkRuleSetArgs(
                default_action=storage.DefaultAction.DENY,
                bypass=storage.Bypass.AZURE_SERVICES,
                ip_rules=[
                    storage.IPRuleArgs(i_p_address_or_range=address, action=storage.Action.ALLOW)
                    for address in args.allowed
                ],
            ),
            sas_policy=storage.SasPolicyArgs(
                sas_expiration_period=SAS_LIFETIME, expiration_action=storage.ExpirationAction.LOG
            ),
            identity=args.encryption.account_identity(),
            encryption=args.encryption.account(files=args.files),
            tags=context.tags,
            opts=self.child_options(
                depends_on=args.encryption.ready,
                protect=context.protected,
                extra=refuse_changes(f"storage-{args.label}", IMMUTABLE),
            ),
        )
        # One at a time: the account answers 409 (StorageAccountOperationInProgress) to the others.
        self.last: pulumi.Resource = self._blob_service(context, args)
        """The last of the resources in the account, which exists when all others do."""
        if args.files:
            self.last = storage.FileServiceProperties(
                f"storage-{args.label}-files",
                account_name=self.account.name,
                file_services_name="default",
                resource_group_name=context.group,
                share_delete_retention_policy=storage.DeleteRetentionPolicyArgs(
                    enabled=True, days=args.soft_delete_retention_days
                ),
                opts=self.child_options(depends_on=[self.last]),
            )
        for container in args.containers:
            self.last = storage.BlobContainer(
                f"{args.label}-{container}",
                container_name=container,
                account_name=self.account.name,
                resource_group_name=context.group,
                public_access=storage.PublicAccess.NONE,
                opts=self.child_options(depends_on=[self.last], protect=context.protected),
            )
        if args.lifecycle_rules:
            self.last = storage.ManagementPolicy(
                f"storage-{args.label}-ageing",
                # Azure accepts no other name and answers 404 to any.
                management_policy_name="default",
                account_name=self.account.name,
                resource_group_name=context.group,
                policy=storage.ManagementPolicySchemaArgs(
                    rules=[_rule(rule) for rule in args.lifecycle_rules]
                ),
                opts=self.child_options(depends_on=[self.last]),
            )
        self.register_outputs({"account": self.account.id})

    def _blob_service(
        self, context: StackContext, args: StorageArgs
    ) -> storage.BlobServiceProperties:
        retention = storage.DeleteRetentionPolicyArgs(
            enabled=True, days=args.soft_delete_retention_days
        )
        return storage.BlobServiceProperties(
            f"storage-{args.label}-blobs",
            account_name=self.account.name,
            blob_services_name="default",
            resource_group_name=context.group,
            delete_retention_policy=retention,
            container_delete_retention_policy=retention,
            is_versioning_enabled=False,
            cors=storage.CorsRulesArgs(cors_rules=[_studio()]) if args.files else None,
            opts=self.child_options(),
        )


def _studio() -> storage.CorsRuleArgs:
    methods = storage.AllowedMethods
    return storage.CorsRuleArgs(
        allowed_origins=list(STUDIO_ORIGINS),
        allowed_methods=[
            methods.GET,
            methods.HEAD,
            methods.PUT,
            methods.DELETE,
            methods.OPTIONS,
            methods.POST,
            methods.PATCH,
        ],
        allowed_headers=["*"],
        exposed_headers=["*"],
        max_age_in_seconds=1800,
    )


def _rule(rule: LifecycleRule) -> storage.ManagementPolicyRuleArgs:
    return storage.ManagementPolicyRuleArgs(
        name=rule.name,
        enabled=True,
        type=storage.RuleType.LIFECYCLE,
        definition=storage.ManagementPolicyDefinitionArgs(
            filters=storage.ManagementPolicyFilterArgs(
                blob_types=["blockBlob"], prefix_match=list(rule.prefixes)
            ),
            actions=storage.ManagementPolicyActionArgs(
                base_blob=storage.ManagementPolicyBaseBlobArgs(
                    tier_to_cool=_after(rule.cool_after), delete=_after(rule.delete_after)
                )
            ),
        ),
    )


def _after(days: int | None) -> storage.DateAfterModificationArgs | None:
    if days is None:
        return None
    return storage.DateAfterModificationArgs(days_after_modification_greater_than=days)
