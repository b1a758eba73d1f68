"""Parses the paths of Resource Manager's requests. Pure."""

import re
from dataclasses import dataclass

from rehearsal.errors import AzureError

PROVIDER = "Microsoft.Resources/providers"
"""Kind of a resource provider of a subscription, which is not a resource of its own."""
_SCOPE = re.compile(r"/subscriptions/([^/]+)(?:/resourcegroups/([^/]+))?", re.IGNORECASE)


@dataclass(frozen=True)
class ArmPath:
    """A resource, a collection, or an action on a resource."""

    id: str
    """Id of the resource; for a collection or an action, id of the resource that holds it."""
    subscription: str
    group: str
    """Name of the resource group; empty for resources of a subscription."""
    kind: str
    """Kind, such as Microsoft.MachineLearningServices/workspaces/computes."""
    name: str
    parent: str
    """Id of the resource above, or of the resource group or subscription."""
    tail: str = ""
    """Name of the collection or the action; empty for a resource."""
    version: str = ""
    """API version of the request; empty for the newest."""

    @property
    def collection_kind(self) -> str:
        """Kind of the resources in the collection."""
        return f"{self.kind}/{self.tail}" if "/" in self.kind else self.tail


def parse(path: str) -> ArmPath:
    """Parse a path of Resource Manager.

    Raises:
        AzureError: it is not such a path.
    """
    path = path.rstrip("/")
    scope = _SCOPE.match(path)
    if scope is None:
        raise AzureError(404, "NotFound", f"No resource has the path {path!r}")
    subscription, group = scope[1], scope[2] or ""
    before, marker, after = path.rpartition("/providers/")
    if not marker:
        return _of_scope(path, subscription, group)
    namespace, *parts = after.split("/")
    if not parts:
        return ArmPath(path, subscription, group, PROVIDER, namespace, before)
    resource_parts = parts[: len(parts) - len(parts) % 2]
    tail = parts[-1] if len(parts) % 2 else ""
    kind = "/".join([namespace, *resource_parts[::2]])
    identifier = "/".join([before, "providers", namespace, *resource_parts])
    if not resource_parts and tail.lower() == "register":
        provider = f"{before}/providers/{namespace}"
        return ArmPath(provider, subscription, group, PROVIDER, namespace, before, tail)
    if not resource_parts:
        # A collection directly below a scope: /…/providers/Namespace/types.
        return ArmPath(before, subscription, group, namespace, "", before, tail)
    parent = before if len(resource_parts) == 2 else identifier.rsplit("/", 2)[0]
    return ArmPath(identifier, subscription, group, kind, resource_parts[-1], parent, tail)


def _of_scope(path: str, subscription: str, group: str) -> ArmPath:
    parts = path.strip("/").split("/")
    above = f"/subscriptions/{subscription}"
    kind = "Microsoft.Resources/resourceGroups" if group else "Microsoft.Resources/subscriptions"
    tail = parts[-1] if len(parts) % 2 else ""
    identifier = "/" + "/".join(parts[: len(parts) - len(parts) % 2])
    return ArmPath(identifier, subscription, group, kind, group or subscription, above, tail)
