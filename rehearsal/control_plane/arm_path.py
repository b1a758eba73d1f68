"""Resource ids and what a request's path asks for. Pure."""

import re
from dataclasses import dataclass

from rehearsal.errors import AzureError

_SCOPE = re.compile(r"/subscriptions/([^/]+)(?:/resourcegroups/([^/]+))?", re.IGNORECASE)


@dataclass(frozen=True)
class ArmPath:
    """A resource, a collection, or an action on a resource."""

    id: str
    """Of the resource; of what holds it, for a collection or an action."""
    subscription: str
    group: str
    """Empty for what belongs to a subscription."""
    kind: str
    """Such as Microsoft.MachineLearningServices/workspaces/computes."""
    name: str
    parent: str
    """Id of the resource above, or of the group or subscription."""
    tail: str = ""
    """Name of the collection or the action; empty for a resource."""

    @property
    def collection_kind(self) -> str:
        """Kind of the resources in the collection."""
        return f"{self.kind}/{self.tail}" if "/" in self.kind else self.tail


def parse(path: str) -> ArmPath:
    """Take a path of Resource Manager apart.

    Raises:
        AzureError: it is none.
    """
    path = path.rstrip("/")
    scope = _SCOPE.match(path)
    if scope is None:
        raise AzureError(404, "NotFound", f"No resource has the path {path!r}")
    subscription, group = scope[1], scope[2] or ""
    before, marker, after = path.rpartition("/providers/")
    if not marker:
        return _of_scope(path, subscription, group)
    namespace, *words = after.split("/")
    if not words:
        raise AzureError(404, "InvalidResourceNamespace", f"{path!r} names no type of resource")
    resource_words = words[: len(words) - len(words) % 2]
    tail = words[-1] if len(words) % 2 else ""
    kind = "/".join([namespace, *resource_words[::2]])
    identifier = "/".join([before, "providers", namespace, *resource_words])
    if not resource_words:
        # A collection directly below a scope: /…/providers/Namespace/types.
        return ArmPath(before, subscription, group, namespace, "", before, tail)
    parent = before if len(resource_words) == 2 else identifier.rsplit("/", 2)[0]
    return ArmPath(identifier, subscription, group, kind, resource_words[-1], parent, tail)


def _of_scope(path: str, subscription: str, group: str) -> ArmPath:
    words = path.strip("/").split("/")
    above = f"/subscriptions/{subscription}"
    kind = "Microsoft.Resources/resourceGroups" if group else "Microsoft.Resources/subscriptions"
    tail = words[-1] if len(words) % 2 else ""
    identifier = "/" + "/".join(words[: len(words) - len(words) % 2])
    return ArmPath(identifier, subscription, group, kind, group or subscription, above, tail)
