"""Prerequisites of a stack in Azure before its first resource is made.

The second contract between `infra/` and `jobs/`, which asks Azure about each of them before it
starts Pulumi. Derived from the settings alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, get_args, get_type_hints

from common.fields import get
from infra import stack_config
from infra.catalog import roles
from infra.checks import needs
from infra.checks.network import EXISTING_SERVICES
from infra.leaf import Beginning, Needed
from infra.naming import GLOBAL
from infra.outputs import Access, Priority
from infra.setting_types import Region
from infra.settings import Settings
from infra.subnets import DOCKER_BRIDGE
from infra.validation import load

Need: TypeAlias = Needed
"""Something that must exist in Azure."""
Month: TypeAlias = Beginning
"""A month that Azure must still accept."""
CONTAINERS: Final = DOCKER_BRIDGE
"""Range of the containers on a node: a job there reaches no other network of that range."""
_ACCOUNT = "Microsoft.Storage/storageAccounts"
_RESOURCES = {
    "default_storage": (_ACCOUNT, "storage-default"),
    "data_storage": (_ACCOUNT, "storage-data"),
    "registry": ("Microsoft.ContainerRegistry/registries", "registry"),
    "vault": ("Microsoft.KeyVault/vaults", "vault"),
}
_ZONAL = {
    "storage.default_redundancy": "ZRS",
    "storage.data_redundancy": "ZRS",
    "registry.zone_redundant": True,
}
"""Values of settings that need a region with availability zones."""


@dataclass(frozen=True)
class GlobalName:
    """A name that no other resource in Azure may have."""

    name: str
    kind: str
    """Resource Manager's type, such as Microsoft.KeyVault/vaults."""
    resource: str
    """Name of the resource in the Pulumi program."""


@dataclass(frozen=True)
class Prerequisites:
    """What one stack asks of Azure."""

    tenant_id: str
    subscription_id: str
    resource_group: str
    group_exists: bool
    """Whether the group must exist already."""
    region: str
    other_regions: Mapping[str, tuple[str, ...]]
    """Regions that other settings than `location` name, by setting."""
    stack: str
    workspace: str
    access: Access
    names: tuple[GlobalName, ...]
    """Names of the resources that the stack declares, not of existing ones."""
    sizes: Mapping[str, tuple[str, Priority]]
    """VM size and priority by the setting of each cluster."""
    zonal: tuple[str, ...]
    """Settings that need a region with availability zones."""
    beginnings: tuple[Beginning, ...]
    """Months that Azure must still accept."""
    existing: tuple[Needed, ...]
    """What must exist in Azure."""
    prefix: str
    """Common beginning of all names of the project."""
    tags: Mapping[str, str]
    """Tags of every resource."""
    roles: tuple[str, ...]
    """GUIDs of the roles that stacks assign, and no others."""
    roles_of_owner: bool
    """Whether the owner of the subscription assigns roles, by the names that the stack expects."""


def read(config: Mapping[str, Any], stack: str) -> Prerequisites:
    """Return the prerequisites of a stack.

    Args:
        config: Configuration of the stack as `pulumi config` shows it: text, or the data of a group
            or list, by key with the project's name.
        stack: Name of the stack.

    Raises:
        SettingsError: with every problem of the configuration.
    """
    values = stack_config.decode(config, stack_config.project())
    return of(load({**values, "stack": stack}))


def read_file(
    stack: str, file: Path | None = None, subscription: Mapping[str, str] | None = None
) -> Prerequisites:
    """Return the prerequisites of a stack that Pulumi may not know yet, from its settings file.

    Args:
        stack: Name of the stack.
        file: File of the settings; None is the stack's own in the repository.
        subscription: `id` and `tenant` in place of those in the file.

    Raises:
        SettingsError: with every problem of the configuration.
        ValueError: there is no such file.
    """
    _, values = stack_config.configuration(stack, file)
    given = values.get("subscription", {})
    if subscription and isinstance(given, Mapping):
        values = {**values, "subscription": {**given, **subscription}}
    return of(load({**values, "stack": stack}))


def of(settings: Settings) -> Prerequisites:
    """Return what these settings ask of Azure."""
    names, needed = settings.names, needs.of(settings)
    declared = [name for name in GLOBAL if get(settings, EXISTING_SERVICES[name]) is None]
    return Prerequisites(
        tenant_id=settings.subscription.tenant,
        subscription_id=settings.subscription.id,
        resource_group=names.resource_group,
        group_exists=settings.resource_group.existing is not None,
        region=settings.location,
        other_regions={
            setting: named
            for setting, named in _regions(settings)
            if named and setting != "location"
        },
        stack=settings.stack,
        workspace=names.workspace,
        access=Access(
            "allowlisted" if settings.public else "private", settings.allowed_addresses, ()
        ),
        names=tuple(GlobalName(getattr(names, name), *_RESOURCES[name]) for name in declared),
        sizes={
            f"clusters.{key}.size": (cluster.size, cluster.azure_priority)
            for key, cluster in settings.clusters.items()
        },
        zonal=tuple(key for key, value in _ZONAL.items() if get(settings, key) == value),
        beginnings=tuple(need for need in needed if isinstance(need, Beginning)),
        existing=tuple(need for need in needed if isinstance(need, Needed)),
        prefix=settings.prefix,
        tags=dict(settings.tags),
        roles=tuple(sorted([*roles.NAMES, *(one.id for one in settings.own_roles.values())])),
        roles_of_owner=settings.roles == "existing",
    )


def _regions(group: object, path: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the regions that each setting of a group names, found by the settings' types."""
    hints = get_type_hints(type(group), include_extras=True)
    for field in fields(group):  # type: ignore[arg-type]
        value, kind = getattr(group, field.name), hints[field.name]
        if kind == Region:
            yield f"{path}{field.name}", (value,)
        elif Region in get_args(kind):
            yield f"{path}{field.name}", tuple(value or ())
        elif is_dataclass(value):
            yield from _regions(value, f"{path}{field.name}.")
