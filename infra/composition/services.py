"""The services that a workspace uses, declared or existing: vault, storage accounts, registry."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import storage

from infra.catalog import resource_ids
from infra.components.access import Identities
from infra.components.base import Service, StackContext
from infra.components.encryption import Encryption
from infra.components.key_vault import Vault, VaultArgs
from infra.components.registry import Registry, RegistryArgs
from infra.components.storage import LifecycleRule, Storage, StorageArgs
from infra.leaf import load
from infra.naming import PREPARED_CONTAINER, RAW_CONTAINER, RESULTS_CONTAINER
from infra.settings import Settings

JOB_LOGS = ("azureml/ExperimentRun", "snapshots", "snapshotzips")
"""Where Azure Machine Learning keeps logs and code of jobs in its default account. Found by
observation: it documents no names. Models and results are elsewhere."""

BLOB_ADDRESS = "https://{}.blob.core.windows.net/"


@dataclass(frozen=True)
class Services:
    """All services of the workspace."""

    vault: Service
    default_storage: Service
    data_storage: Service
    registry: Service
    encryption: Encryption

    @property
    def accounts_ready(self) -> list[pulumi.Resource]:
        """Resources that must exist before both accounts can be used."""
        return [*self.default_storage.ready, *self.data_storage.ready]


def declare(settings: Settings, context: StackContext, identities: Identities) -> Services:
    """Declare the services that the settings do not take from existing resources."""
    vault = _vault(settings, context)
    encryption = _encryption(settings, context, vault, identities)
    return Services(
        vault=vault,
        default_storage=_default_storage(settings, context, encryption),
        data_storage=_data_storage(settings, context, encryption),
        registry=_registry(settings, context, encryption),
        encryption=encryption,
    )


def _vault(settings: Settings, context: StackContext) -> Service:
    vault_settings = settings.vault
    if vault_settings.existing is not None:
        return _existing(vault_settings.existing, "https://{}.vault.azure.net/")
    vault = Vault(
        context,
        VaultArgs(vault_settings.soft_delete_retention_days, vault_settings.purge_protection),
    ).vault
    uri = vault.properties.apply(lambda properties: properties.vault_uri or "")
    return _declared(context, vault.id, vault.name, uri)


def _encryption(
    settings: Settings, context: StackContext, vault: Service, identities: Identities
) -> Encryption:
    if settings.data_keys is None:
        return Encryption()
    encryption: Encryption = load(settings.data_keys.encryption)(
        settings, context, vault, identities
    )
    return encryption


def _default_storage(settings: Settings, context: StackContext, encryption: Encryption) -> Service:
    storage_settings = settings.storage
    if storage_settings.existing_default is not None:
        return _existing(storage_settings.existing_default, BLOB_ADDRESS)
    return _storage(
        context,
        StorageArgs(
            label="default",
            account=context.names.default_storage,
            kind=storage.Kind.STORAGE_V2,
            sku=storage.SkuName(f"Standard_{storage_settings.default_redundancy}"),
            containers=[RESULTS_CONTAINER],
            soft_delete_retention_days=storage_settings.soft_delete_retention_days,
            lifecycle_rules=[
                LifecycleRule(
                    "job-logs", JOB_LOGS, delete_after=storage_settings.snapshot_retention_days
                ),
                LifecycleRule(
                    "results",
                    [f"{RESULTS_CONTAINER}/"],
                    cool_after=storage_settings.cool_after_days,
                ),
            ],
            allowed=settings.allowed_addresses,
            public=settings.public or storage_settings.public_access == "denied",
            files=True,
            encryption=encryption,
        ),
    )


def _data_storage(settings: Settings, context: StackContext, encryption: Encryption) -> Service:
    storage_settings = settings.storage
    if storage_settings.existing_data is not None:
        return _existing(storage_settings.existing_data, BLOB_ADDRESS)
    return _storage(
        context,
        StorageArgs(
            label="data",
            account=context.names.data_storage,
            kind=storage.Kind.BLOCK_BLOB_STORAGE,
            sku=storage.SkuName(f"Premium_{storage_settings.data_redundancy}"),
            containers=[RAW_CONTAINER, PREPARED_CONTAINER],
            soft_delete_retention_days=storage_settings.soft_delete_retention_days,
            allowed=settings.allowed_addresses,
            public=settings.public or storage_settings.public_access == "denied",
            encryption=encryption,
        ),
    )


def _storage(context: StackContext, args: StorageArgs) -> Service:
    declared = Storage(context, args)
    blob = declared.account.primary_endpoints.apply(lambda endpoints: endpoints.blob)
    return _declared(
        context,
        declared.account.id,
        declared.account.name,
        blob,
        ready=[declared.last],
    )


def _registry(settings: Settings, context: StackContext, encryption: Encryption) -> Service:
    registry_settings = settings.registry
    if registry_settings.existing is not None:
        return _existing(registry_settings.existing, "{}.azurecr.io")
    args = RegistryArgs(
        registry_settings.untagged_retention_days, registry_settings.zone_redundant, encryption
    )
    declared = Registry(context, args).registry
    return _declared(context, declared.id, declared.name, declared.login_server)


def _declared(
    context: StackContext,
    id_: pulumi.Input[str],
    name: pulumi.Input[str],
    address: pulumi.Input[str],
    ready: Sequence[pulumi.Resource] = (),
) -> Service:
    group = context.names.resource_group
    return Service(id_, name, address, context.subscription, group, own=True, ready=ready)


def _existing(id_: str, address: str) -> Service:
    """Return an existing service; its address follows from its name in the public cloud."""
    subscription, group, name = resource_ids.parts(id_)
    return Service(id_, name, address.format(name.lower()), subscription, group, own=False)
