"""The managed network of a workspace: what Azure refuses about its mode, and its outbound rules.

From Azure Machine Learning, "Managed virtual network isolation"; the messages are not Azure's.
"""

from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.envelopes import shown
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.resources.roles import Roles

WORKSPACE: Final = "Microsoft.MachineLearningServices/workspaces"
RULE: Final = f"{WORKSPACE}/outboundRules"
COMPUTE: Final = f"{WORKSPACE}/computes"
DISABLED: Final = "Disabled"
APPROVED_ONLY: Final = "AllowOnlyApprovedOutbound"
OWN_TARGETS: Final = {
    "storageAccount": ("blob", "file"),
    "keyVault": ("vault",),
    "containerRegistry": ("registry",),
}
"""Properties of a workspace with the sub-resources that the service makes endpoints for."""


def mode_of(workspace: Document | None) -> str:
    """Return the isolation mode of a workspace."""
    network = ((workspace or {}).get("properties") or {}).get("managedNetwork") or {}
    return str(network.get("isolationMode") or DISABLED)


def check_workspace(
    resources: ResourceManager, path: ArmPath, body: Document, before: Document | None
) -> None:
    """Raise an AzureError for a change of a workspace's managed network that Azure would refuse."""
    known, wanted = mode_of(before), mode_of(body)
    network = (body.get("properties") or {}).get("managedNetwork") or {}
    if known not in {wanted, DISABLED} and (wanted == DISABLED or known == APPROVED_ONLY):
        raise user_error(
            f"Workspace {path.name}: the isolation mode of its managed network cannot change from"
            f" {known} to {wanted}."
        )
    if wanted == DISABLED:
        return
    if before is not None and known == DISABLED and resources.of_kind(COMPUTE, path.id):
        raise user_error(
            f"Workspace {path.name}: delete its computes before its managed network is enabled."
        )
    serverless = (body["properties"].get("serverlessComputeSettings")) or {}
    if serverless.get("serverlessComputeCustomSubnet"):
        raise user_error(
            f"Workspace {path.name}: a custom subnet cannot be used with isolation mode {wanted}."
        )
    if before is not None and network.get("outboundRules"):
        raise AzureError(500, "InternalServerError", "An internal server error occurred.")


def complete_workspace(path: ArmPath, document: Document) -> None:
    """Set what Azure computes about a workspace's managed network."""
    if mode_of(document) == DISABLED:
        return
    properties = document["properties"]
    properties["managedNetwork"] |= {
        "networkId": f"{path.id}/managedNetworks/default",
        "status": {
            "status": "Active" if properties.get("provisionNetworkNow") else "Inactive",
            "sparkReady": False,
        },
    }


def show_workspace(resources: ResourceManager, path: ArmPath, document: Document) -> None:
    """Add the outbound rules to the answer to a GET of a workspace."""
    if mode_of(document) != DISABLED:
        document["properties"]["managedNetwork"]["outboundRules"] = _rules(
            resources, path.id, document["properties"]
        )


def check_compute(workspace: Document | None, path: ArmPath, body: Document) -> None:
    """Raise an AzureError for a compute that cannot be in the managed network of its workspace."""
    if workspace is None or mode_of(workspace) == DISABLED:
        return
    nodes = (body.get("properties") or {}).get("properties") or {}
    if nodes.get("subnet"):
        raise user_error(
            f"Compute {path.name}: a subnet cannot be set, because workspace {workspace['name']}"
            " has a managed network."
        )
    if body.get("location") != workspace.get("location"):
        raise user_error(
            f"Compute {path.name}: must be in the region of workspace {workspace['name']}, which"
            " has a managed network."
        )


def _rules(resources: ResourceManager, workspace: str, properties: Document) -> dict[str, Any]:
    """Return all rules as a workspace shows them: those of the service, and those of its owner."""
    required = {
        f"__SYS_PE_{key}_{part}": {
            "type": "PrivateEndpoint",
            "category": "Required",
            "destination": {"serviceResourceId": target, "subresourceTarget": part},
        }
        for key, parts in OWN_TARGETS.items()
        if (target := properties.get(key))
        for part in parts
    }
    own = resources.of_kind(RULE, workspace)
    return required | {rule["name"]: shown(rule)["properties"] for rule in own}


@dataclass(frozen=True)
class OutboundRule(ResourceKind):
    """Destinations of nodes in a managed network, besides those that the service approves
    itself.
    """

    resources: ResourceManager
    roles: Roles
    """Decides whether the identity of the workspace may approve an endpoint."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        workspace = self.resources.get(path.parent)
        mode, rule = mode_of(workspace), body.get("properties") or {}
        if workspace is None or mode == DISABLED:
            raise user_error(f"Outbound rule {path.name}: the workspace has no managed network.")
        destination = rule.get("destination")
        match rule.get("type"):
            case "FQDN" if mode != APPROVED_ONLY:
                raise user_error(f"Outbound rule {path.name}: FQDN takes {APPROVED_ONLY}.")
            case "FQDN" if str(destination).endswith(".core.windows.net"):
                raise user_error(
                    f"Outbound rule {path.name}: a storage account takes a private endpoint."
                )
            case "FQDN" | "ServiceTag":
                return
            case "PrivateEndpoint":
                self._check_endpoint(path, workspace, destination or {})
            case other:
                raise user_error(f"Outbound rule {path.name}: has the type {other!r}.")

    def _check_endpoint(self, path: ArmPath, workspace: Document, to: Document) -> None:
        target, part = str(to.get("serviceResourceId")), to.get("subresourceTarget")
        if self.resources.get(target) is None or not part:
            raise user_error(f"Outbound rule {path.name}: {target} ({part}) was not found.")
        for key, parts in OWN_TARGETS.items():
            own = str(workspace["properties"].get(key)).lower()
            if target.lower() == own and part in parts:
                raise user_error(
                    f"Outbound rule {path.name}: a required rule leads to {part} of {target}"
                    " already."
                )

    @override
    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        rule, workspace = document["properties"], self.resources.get(path.parent)
        to = rule.get("destination")
        rule["status"] = "Active"
        if workspace is not None and isinstance(to, dict):
            holders = [
                str(holder.get("principalId"))
                for holder in workspace["identity"].get("userAssignedIdentities", {}).values()
            ]
            target = str(to["serviceResourceId"])
            if not any(self.roles.may_approve(holder, target) for holder in holders):
                # The endpoint stays pending until it is approved.
                rule["status"] = "Inactive"


def kinds(resources: ResourceManager, roles: Roles) -> dict[str, ResourceKind]:
    """Return the rules of all kinds of this module."""
    return {RULE: OutboundRule(resources, roles)}
