"""Resources of a stack in Azure, and those that are left after a teardown."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from infra.outputs import PlatformOutputs
from jobs.azure.error_messages import Platform
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import AccessError, MissingError, SignInError
from jobs.pulumi.state import StackResource

VAULTS: Final = "2026-02-01"
"""API version of vaults."""
GROUPS: Final = "2021-04-01"
"""API version of resource groups."""
_CARD: Final = "microsoft.network/networkinterfaces"
"""Type of network cards, which Azure makes for private endpoints."""
_SMART: Final = re.compile(
    r"smartDetectorAlertRules|Application Insights Smart Detection", re.IGNORECASE
)
"""What Azure makes for Application Insights."""
_NO_SUBSCRIPTION: Final = "SubscriptionNotFound"


@dataclass(frozen=True)
class Leftover:
    """A resource that a teardown left, and the reason."""

    what: str
    why: str


@dataclass(frozen=True)
class Undeclared:
    """A resource in the stack's own group, or attached to its workspace, that is not in its
    state.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class AzureResources:
    """The resources of one stack, as Resource Manager lists them."""

    def __init__(self, manager: ResourceManager, outputs: Platform) -> None:
        self._manager, self._outputs = manager, outputs
        self.vault = _vault(outputs)
        """Name of the stack's vault; empty if the stack declares none."""

    def has_group(self) -> bool:
        """Whether the resource group exists."""
        return self._exists(lambda: self._manager.get(self._manager.group_id, GROUPS))

    def owns_group(self) -> bool:
        """Whether the resource group exists, and the stack has declared it."""
        return self.has_group() and self._is_own(self._manager.get(self._manager.group_id, GROUPS))

    def undeclared(self, declared: Sequence[StackResource]) -> list[Undeclared]:
        """List what others have put into a group that the stack has declared, which Azure deletes
        with the group.

        Args:
            declared: Resources in Pulumi's state.
        """
        group = self._manager.group_id.lower()
        ids = {resource.id.lower() for resource in declared}
        if group not in ids or not self.has_group():
            return []
        ids.add(self._manager.workspace_id.lower())
        parents = tuple(f"{place}/" for place in ids if place != group)
        own_name = f"{self._outputs.workspace.rpartition('-ml-')[0]}-nic-".lower()
        others = []
        for resource in self._manager.items(f"{self._manager.group_id}/resources", GROUPS):
            place, kind, name = (
                str(resource["id"]).lower(),
                str(resource["type"]),
                str(resource["name"]),
            )
            card = kind.lower() == _CARD and (name.lower().startswith(own_name) or ".nic." in name)
            managed = (resource.get("managedBy") or "").lower() in ids
            by_azure = card or managed or _SMART.search(f"{kind} {name}")
            if not (
                place in ids or place.startswith(parents) or self._is_own(resource) or by_azure
            ):
                others.append(Undeclared(kind, name))
        return others

    def attached(self) -> list[Undeclared]:
        """List the compute that others have attached to the workspace: a teardown detaches it."""
        try:
            return attached(self._manager.items("computes"))
        except MissingError:
            return []

    def has_workspace(self) -> bool:
        """Whether the workspace exists."""
        return self._exists(self._manager.check_workspace)

    def deleted_vault(self) -> dict[str, Any] | None:
        """Return properties and id of the stack's vault if it is soft-deleted, else None."""
        if not self.vault:
            return None
        group = f"{self._manager.group_id}/".lower()
        vaults = f"{self._manager.subscription_id}/providers/Microsoft.KeyVault/deletedVaults"
        for vault in self._manager.items(vaults, VAULTS):
            # A vault of another group has the same name by chance, or was only lent to the stack.
            lived = str(vault["properties"].get("vaultId") or "").lower()
            if vault["name"].lower() == self.vault.lower() and lived.startswith(group):
                return {**vault["properties"], "id": vault["id"]}
        return None

    def leftovers(self) -> Iterator[Leftover]:
        """List everything of the stack that Azure still has, including soft-deleted resources.

        Azure documents no list of deleted workspaces. Its list of all workspaces includes some that
        are being deleted (Azure/azure-powershell, issue 28286), so this uses that list.
        """
        manager, outputs = self._manager, self._outputs
        if self.has_group():
            own = self.owns_group()
            resources = list(manager.items(f"{manager.group_id}/resources", GROUPS))
            for resource in resources:
                # In a group that existed before, others have resources too.
                if own or self._is_own(resource):
                    yield Leftover(f"{resource['type']} {resource['name']}", "was not deleted")
            if own and not resources:
                yield Leftover(
                    f"resource group {outputs.resource_group}", "was not deleted, but is empty"
                )
        ids = {str(item["id"]).lower() for item in manager.items(manager.workspaces_id)}
        if manager.workspace_id.lower() in ids:
            yield Leftover(
                f"workspace {outputs.workspace}",
                "is deleted, but keeps its name for 14 days; purge it in the portal, on the page of"
                " Azure Machine Learning",
            )
        if not self.vault:
            return
        purge = f"the subscription's owner purges it: az keyvault purge --name {self.vault}"
        try:
            vault = self.deleted_vault()
        except AccessError as error:
            asked = str(error).splitlines()[0]
            why = f"may be there and keep its name ({asked}); {purge}"
            yield Leftover(f"deleted vault {self.vault}", why)
            return
        if vault is not None:
            yield Leftover(f"deleted vault {self.vault}", _why(vault, purge))

    def _is_own(self, resource: Mapping[str, Any]) -> bool:
        """Whether a group or resource has the tags of resources that the stack declares, or
        that commands have created for it outside of the workspace, such as alerts of an endpoint.
        """
        tags = resource.get("tags") or {}
        own = tags.get("managed-by") in ("pulumi", "jobs")
        return own and tags.get("stack") == self._outputs.stack

    def _exists(self, look: Callable[[], object]) -> bool:
        try:
            look()
        except MissingError as error:
            if _NO_SUBSCRIPTION in str(error):
                # A user of another tenant sees nothing, which does not mean that it is deleted.
                raise SignInError(
                    f"subscription {self._outputs.subscription_id}: is not visible to"
                    f" {self._manager.user()}; sign in to its tenant: az login --tenant"
                    f" {self._outputs.tenant_id}"
                ) from error
            return False
        return True


def attached(computes: Iterable[Mapping[str, Any]]) -> list[Undeclared]:
    """Select the compute that its owner has attached to a workspace, such as a machine. Pure."""
    return [
        Undeclared(str(compute["properties"]["computeType"]), str(compute["name"]))
        for compute in computes
        if compute["properties"].get("isAttachedCompute")
    ]


def _vault(outputs: Platform) -> str:
    if isinstance(outputs, PlatformOutputs):
        return (urlsplit(outputs.vault_uri).hostname or "").partition(".")[0]
    return next((named.name for named in outputs.names if named.resource == "vault"), "")


def _why(vault: dict[str, Any], purge: str) -> str:
    if not vault.get("purgeProtectionEnabled"):
        return f"is deleted, but not purged, and keeps its name; {purge}"
    until = str(vault.get("scheduledPurgeDate") or "the end of its retention")
    return (
        f"has purge protection: Azure purges it on {until[:10]}, and until then its name is taken"
        " (name_seed in the stack's configuration selects other names)"
    )
