"""What a stack has in Azure, and what is left of it after it was deleted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from infra.outputs import PlatformOutputs
from jobs.azure.workspace import Workspace
from jobs.errors import MissingError, SignInError

VAULTS: Final = "2023-07-01"
_NO_SUBSCRIPTION: Final = "SubscriptionNotFound"
GROUPS: Final = "2021-04-01"
"""API versions of what is not Azure Machine Learning."""


@dataclass(frozen=True)
class Left:
    """Something that is still there."""

    what: str
    why: str


def group_is_there(workspace: Workspace) -> bool:
    """Whether the resource group of a stack exists."""
    return _is_there(workspace, lambda: workspace.arm("GET", workspace.group_id, GROUPS))


def workspace_is_there(workspace: Workspace) -> bool:
    """Whether the workspace of a stack lives."""
    return _is_there(workspace, workspace.check)


def deleted_vault(workspace: Workspace) -> dict[str, Any] | None:
    """The vault of a stack, if it is deleted and keeps its name; its properties and id."""
    name, group = vault_name(workspace.outputs), f"{workspace.group_id}/".lower()
    vaults = f"/subscriptions/{workspace.outputs.subscription_id}/providers/Microsoft.KeyVault"
    for vault in workspace.arm_list(f"{vaults}/deletedVaults", VAULTS):
        # One of another group has this name by chance, or is of someone who lent it to the stack.
        lived = str(vault["properties"].get("vaultId", "")).lower()
        if vault["name"].lower() == name.lower() and lived.startswith(group):
            return {**vault["properties"], "id": vault["id"]}
    return None


def vault_name(outputs: PlatformOutputs) -> str:
    """Of the stack's vault, by its address."""
    return (urlsplit(outputs.vault_uri).hostname or "").partition(".")[0]


def left(workspace: Workspace) -> Iterator[Left]:
    """Everything of a stack that Azure still has, deleted or not.

    Azure documents no list of deleted workspaces; its list of all workspaces shows some that are
    being deleted (Azure/azure-powershell, issue 28286), so they are looked for there.
    """
    outputs = workspace.outputs
    if group_is_there(workspace):
        found = list(workspace.arm_list(f"{workspace.group_id}/resources", GROUPS))
        for one in found:
            yield Left(f"{one['type']} {one['name']}", "was not deleted")
        if not found:
            yield Left(f"resource group {outputs.resource_group}", "was not deleted, but is empty")
    every = f"/subscriptions/{outputs.subscription_id}/providers"
    every += "/Microsoft.MachineLearningServices/workspaces"
    if any(str(one["id"]).lower() == workspace.id.lower() for one in workspace.arm_list(every)):
        yield Left(
            f"workspace {outputs.workspace}",
            "is deleted, but keeps its name for 14 days; purge it in the portal, on the page of"
            " Azure Machine Learning",
        )
    vault = deleted_vault(workspace)
    if vault is not None:
        yield Left(f"deleted vault {vault_name(outputs)}", _why(vault))


def _is_there(workspace: Workspace, look: Callable[[], object]) -> bool:
    try:
        look()
    except MissingError as error:
        if _NO_SUBSCRIPTION in str(error):
            # Whoever is signed in to another tenant sees nothing, which is not the same.
            subscription = workspace.outputs.subscription_id
            raise SignInError(
                f"subscription {subscription}: cannot be seen as {workspace.who()}; sign in to its"
                f" tenant: az login --tenant {workspace.outputs.tenant_id}"
            ) from error
        return False
    return True


def _why(vault: dict[str, Any]) -> str:
    if not vault.get("purgeProtectionEnabled"):
        return "is deleted, but not purged, and keeps its name"
    until = str(vault.get("scheduledPurgeDate") or "the end of its retention")
    return (
        f"has purge protection: Azure purges it by itself on {until[:10]}, and until then its name"
        " is taken (name_seed in the stack's configuration gives other names)"
    )
