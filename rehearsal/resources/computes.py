"""Compute of a workspace, in Resource Manager: clusters, instances and attached machines."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import duration_seconds
from rehearsal.control_plane.defaults import filled
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.resource_manager import ResourceManager
from rehearsal.control_plane.store import Document
from rehearsal.errors import AzureError, user_error
from rehearsal.resources.defaults import CLUSTER
from rehearsal.resources.managed_networks import check_compute
from rehearsal.resources.workspaces import WORKSPACE

COMPUTE = f"{WORKSPACE}/computes"

_NAME = re.compile(r"[a-zA-Z](?:[a-zA-Z0-9-]{1,22}[a-zA-Z0-9])")


_OF_NODES = (
    "currentNodeCount",
    "targetNodeCount",
    "nodeStateCounts",
    "allocationState",
)


_MACHINE: Final[Mapping[str, Any]] = {
    "sshPort": 22,
    "notebookServerPort": None,
    "address": "203.0.113.1",
    "ipAddress": "203.0.113.1",
    "administratorAccount": None,
    "imageVersion": None,
    "applicationUris": None,
    "createdBy": None,
}
"""Properties of an attached machine in the answer to a GET, besides its size."""
_INSTANCE: Final[Mapping[str, Any]] = {
    "imageVersion": None,
    "subnet": None,
    "errors": [],
    "applications": [],
    "state": "Running",
    "applicationSharingPolicy": "Shared",
    "enableNodePublicIp": True,
    "enableBatchPrivateLink": False,
}
"""Properties of a compute instance in the answer to a GET, besides its size."""


@dataclass(frozen=True)
class Compute(ResourceKind):
    """A cluster, whose nodes are allocated when jobs need them, an instance, which is one machine,
    or a virtual machine of another owner, which is attached.
    """

    nodes: Callable[[str], list[dict[str, Any]]]
    """Returns the nodes of a cluster by its id, as `listNodes` shows them."""
    get: Callable[[str], Document | None]
    """Returns the workspace of a cluster, or an attached machine, by its id."""
    refusal: Callable[[Document], str | None]
    """Returns why there is no quota for a node of a cluster; None if there is."""
    leave: Callable[[str], None]
    """Lets the network cards of a deleted cluster stay in its subnet for a while."""
    discard: Callable[[str], bool]
    """Removes an attached machine by its id."""

    @override
    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        properties = body.get("properties") or {}
        kind = properties.get("computeType")
        if kind not in ("AmlCompute", "ComputeInstance", "VirtualMachine"):
            raise user_error(f"Compute {path.name}: {kind!r} is not supported here.")
        if not _NAME.fullmatch(path.name):
            raise user_error(
                f"Compute name {path.name!r} is invalid: 3 to 24 letters, digits and dashes,"
                " beginning with a letter."
            )
        inner = properties.get("properties") or {}
        if kind == "VirtualMachine" and not self.get(str(properties.get("resourceId"))):
            raise user_error(f"Compute {path.name}: resourceId is not a virtual machine.")
        if kind == "ComputeInstance" and not inner.get("vmSize"):
            raise user_error(f"Compute {path.name}: vmSize is required.")
        if kind == "AmlCompute":
            self._check_cluster(path, body, before)

    def _check_cluster(self, path: ArmPath, body: Document, before: Document | None) -> None:
        inner = body["properties"].get("properties") or {}
        scale = inner.get("scaleSettings") or {}
        if not inner.get("vmSize") or scale.get("maxNodeCount") is None:
            raise user_error(
                f"Compute {path.name}: vmSize and scaleSettings.maxNodeCount are required."
            )
        try:
            duration_seconds(scale.get("nodeIdleTimeBeforeScaleDown") or "PT0S")
        except ValueError as error:
            raise user_error(f"Compute {path.name}: {error}.") from error
        if scale.get("minNodeCount", 0) > scale["maxNodeCount"]:
            raise user_error(f"Compute {path.name}: minNodeCount is more than maxNodeCount.")
        check_compute(self.get(path.parent), path, body)
        refusal = self.refusal(body) if before is None else None
        if refusal is not None:
            raise AzureError(400, "BadRequest", refusal)
        if before is not None:
            known = before["properties"]["properties"]
            for name in ("vmSize", "vmPriority"):
                if name in inner and inner[name] != known.get(name):
                    raise user_error(f"Compute {path.name}: {name} cannot be changed.")

    @override
    def show(self, path: ArmPath, document: Document) -> Document:
        properties, times = document["properties"], document["systemData"]
        properties |= {"createdOn": times["createdAt"], "modifiedOn": times["lastModifiedAt"]}
        if properties["computeType"] == "AmlCompute":
            properties["properties"] = filled(self._cluster(path, document), CLUSTER, path.version)
            return document
        properties["computeLocation"] = document.get("location")
        if properties["computeType"] == "ComputeInstance":
            properties["properties"] = {**_INSTANCE, **properties["properties"]}
        else:
            machine = self.get(properties["resourceId"]) or {"properties": {}}
            size = (machine["properties"].get("hardwareProfile") or {}).get("vmSize")
            properties["isAttachedCompute"] = True
            properties["properties"] = {"virtualMachineSize": size, **_MACHINE}
        return document

    def _cluster(self, path: ArmPath, document: Document) -> Document:
        """Return the properties of a cluster, with the state of its nodes."""
        nodes = self.nodes(path.id)
        properties = document["properties"]
        counts = {
            f"{state}NodeCount": sum(node["nodeState"] == state for node in nodes)
            for state in ("idle", "running", "preparing", "unusable", "leaving", "preempted")
        }
        here = len(nodes) - counts["preemptedNodeCount"]
        steady = counts["preparingNodeCount"] + counts["leavingNodeCount"] == 0
        shown = {
            "vmPriority": "Dedicated",
            **properties["properties"],
            "currentNodeCount": here - counts["preparingNodeCount"],
            "targetNodeCount": here - counts["leavingNodeCount"],
            "nodeStateCounts": counts,
            "allocationState": "Steady" if steady else "Resizing",
            "allocationStateTransitionTime": max(
                [node["since"] for node in nodes], default=document["systemData"]["createdAt"]
            ),
            "errors": None,
        }
        if properties.get("provisioningState") == "Creating":
            # Nothing is known about its nodes yet.
            shown |= dict.fromkeys(("vmPriority", *_OF_NODES))
            shown.pop("allocationStateTransitionTime")
        else:
            properties["computeLocation"] = document.get("location")
            shown |= {"propertyBag": {}}
            if shown.get("remoteLoginPortPublicAccess", "NotSpecified") == "NotSpecified":
                # Once it exists, the cluster has one of the two.
                port = "Disabled" if shown.get("subnet") else "Enabled"
                shown["remoteLoginPortPublicAccess"] = port
        return shown

    @override
    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        properties = document["properties"]
        machine = properties.get("resourceId")
        if machine and request.query.get("underlyingResourceAction") == "Delete":
            self.discard(machine)
        subnet = ((properties.get("properties") or {}).get("subnet") or {}).get("id")
        if subnet:
            self.leave(str(subnet))

    @override
    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        if any(node["nodeState"] == "running" for node in self.nodes(path.id)):
            raise AzureError(
                409, "Conflict", f"Compute {path.name} runs jobs; cancel them before it is deleted."
            )

    @override
    def act(
        self, path: ArmPath, document: Document, action: str, request: Request
    ) -> Response | None:
        if action.lower() == "listnodes":
            return Response(body={"nodes": self.nodes(path.id)})
        return None


def clusters(resources: ResourceManager, below: str = "") -> list[Document]:
    """Return the stored clusters, below another resource if one is given."""
    return [
        document
        for document in resources.of_kind(COMPUTE, below)
        if document["properties"]["computeType"] == "AmlCompute"
    ]


def is_low_priority(cluster: Document) -> bool:
    """Check whether a cluster's nodes may be pre-empted."""
    inner = cluster["properties"]["properties"]
    return bool(inner.get("vmPriority", "Dedicated") == "LowPriority")
