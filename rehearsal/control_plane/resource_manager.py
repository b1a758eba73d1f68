"""Resource Manager: a store of resources that applies the rules of each kind."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rehearsal.control_plane import arm_path
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id, timestamp
from rehearsal.control_plane.envelopes import shown
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError, resource_not_found

ListResources: TypeAlias = Callable[[ArmPath, Request], list[Document]]
"""Lists a collection whose resources are computed, not stored."""

Compute: TypeAlias = Callable[[ArmPath], Document]
"""Returns a resource that is computed, not stored."""

_SPACE = "resources"
_OPERATIONS = "/providers/Microsoft.MachineLearningServices/locations/any/mfeOperationResults/"
_NO_RULES = ResourceKind()


@dataclass
class _Operation:
    due: float
    finish: Callable[[], None]
    done: bool = False


@dataclass
class Operations:
    """Operations that continue after their request was accepted."""

    url: str
    """Address of this Azure."""
    seconds: float
    """Duration of each operation; 0 makes requests synchronous."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    _operations: dict[str, _Operation] = field(default_factory=dict, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)

    def accept(self, subscription: str, finish: Callable[[], None]) -> Response:
        """Respond to a request whose work is done later.

        Args:
            subscription: Id of the operation's subscription.
            finish: Does the work.
        """
        name = new_id()
        with self._lock:
            self._operations[name] = _Operation(self.clock() + self.seconds, finish)
        address = f"{self.url}/subscriptions/{subscription}{_OPERATIONS}{name}"
        return Response(202, None, {"Location": address, "Retry-After": "1"})

    def finish_due(self) -> None:
        """Finish all operations whose duration is over."""
        with self._lock:
            for operation in self._operations.values():
                if not operation.done and operation.due <= self.clock():
                    operation.done = True
                    operation.finish()

    def response(self, path: str) -> Response | None:
        """Return the state of an operation; None if the path is not that of an operation.

        Raises:
            AzureError: there is no such operation.
        """
        _, marker, name = path.partition(_OPERATIONS)
        if not marker:
            return None
        with self._lock:
            operation = self._operations.get(name)
        if operation is None:
            raise AzureError(404, "NotFound", f"There is no operation {name}")
        return Response(200, {"status": "Succeeded"}) if operation.done else Response(202)


@dataclass
class ResourceManager:
    """All resources of all subscriptions."""

    store: Store
    operations: Operations
    """Deletions that take time."""
    tenant_id: str = ""
    """Id of the tenant of all subscriptions."""
    subscriptions: Sequence[str] | None = None
    """Ids of the subscriptions that exist; None if every one does, of which those with a resource
    group are listed."""
    _kinds: dict[str, ResourceKind] = field(default_factory=dict, init=False)
    _lists: dict[str, ListResources] = field(default_factory=dict, init=False)
    _computed: dict[str, Compute] = field(default_factory=dict, init=False)

    def register(self, kinds: Mapping[str, ResourceKind]) -> None:
        """Add rules of kinds, by names such as Microsoft.Storage/storageAccounts."""
        self._kinds |= {name.lower(): kind for name, kind in kinds.items()}

    def register_lists(self, lists: Mapping[str, ListResources]) -> None:
        """Add computed collections, by the names of their kinds."""
        self._lists |= {name.lower(): function for name, function in lists.items()}

    def register_computed(self, kinds: Mapping[str, Compute]) -> None:
        """Add kinds whose resources are computed, by their names."""
        self._computed |= {name.lower(): function for name, function in kinds.items()}

    def get(self, identifier: str) -> Document | None:
        """Return a resource as it is stored; None if it does not exist."""
        return self.store.get(_SPACE, identifier)

    def update(self, identifier: str, properties: Mapping[str, Any]) -> None:
        """Change properties of a resource if it still exists."""
        with self.store.lock:
            document = self.get(identifier)
            if document is not None:
                document["properties"] |= properties
                self.store.put(_SPACE, identifier, document)

    def discard(self, identifier: str) -> bool:
        """Remove a resource and everything below it without applying rules; return whether it
        existed.
        """
        return self.store.delete(_SPACE, identifier)

    def below(self, identifier: str = "", part: str = "") -> list[Document]:
        """Return the stored resources below another one, or all of them.

        Args:
            identifier: Id of the resource above; empty for all.
            part: Text that the ids must contain.
        """
        return self.store.below(_SPACE, identifier, part)

    def of_kind(self, kind: str, below: str = "") -> list[Document]:
        """Return the stored resources of a kind, below another resource if one is given."""
        return [
            document
            for document in self.below(below, f"/{kind.rpartition('/')[2]}/")
            if document["type"].lower() == kind.lower()
        ]

    def put(self, identifier: str, body: Document, caller: str = "platform") -> Document:
        """Write a resource; return it as a GET shows it.

        Raises:
            AzureError: the rules refuse it.
        """
        path = arm_path.parse(identifier)
        rules = self._rules(path.kind)
        with self.store.lock:
            before = self.get(path.id)
            if rules.needs_parent:
                self._require_parent(path)
            rules.check(path, body, before)
            document = _document(path, body, before, caller, rules)
            rules.complete(path, document, before)
            self.store.put(_SPACE, path.id, document)
        rules.after_put(path, document)
        return shown(rules.show(path, document))

    def respond(self, request: Request) -> Response:
        """Respond to a request below /subscriptions.

        Raises:
            AzureError: the rules refuse it.
        """
        self.operations.finish_due()
        if request.path.rstrip("/") == "/subscriptions":
            groups = self.of_kind("Microsoft.Resources/resourceGroups")
            used = dict.fromkeys(str(one["id"]).split("/")[2] for one in groups)
            known = used if self.subscriptions is None else self.subscriptions
            return Response(body={"value": [self._subscription(name) for name in known]})
        return self.operations.response(request.path) or self._respond(request)

    def _respond(self, request: Request) -> Response:
        path = arm_path.parse(request.path)
        if self.subscriptions is not None and path.subscription not in self.subscriptions:
            raise AzureError(
                404,
                "SubscriptionNotFound",
                f"The subscription '{path.subscription}' could not be found.",
            )
        if path.tail:
            return (self._act if request.method == "POST" else self._list)(path, request)
        match request.method:
            case "PUT":
                created = self.get(path.id) is None
                document = self.put(path.id, request.json(), request.caller)
                rules = self._rules(path.kind)
                return Response(
                    rules.created_status if created else rules.replaced_status, document
                )
            case "PATCH":
                patched = merged(self._existing(path), request.json())
                return Response(200, self.put(path.id, patched, request.caller))
            case "DELETE":
                return self._delete(path, request)
            case "HEAD":
                return Response(204 if self._get(path) is not None else 404)
            case _:
                found = self._rules(path.kind).show(path, self._existing(path))
                return Response(body=shown(found))

    def _delete(self, path: ArmPath, request: Request) -> Response:
        rules = self._rules(path.kind)
        with self.store.lock:
            document = self.get(path.id)
            if document is None and rules is _NO_RULES:
                return Response(204)
            response = rules.delete(path, document or {}, request)
            if document is None:
                return Response(204) if response.status == 200 else response
            if response.status != 200:
                return response
            if rules.deleted_later and self.operations.seconds:
                self.update(path.id, {"provisioningState": "Deleting"})
                return self.operations.accept(
                    path.subscription, lambda: self._remove(path, request)
                )
            self._remove(path, request)
            return response

    def _remove(self, path: ArmPath, request: Request) -> None:
        """Remove a resource and everything below it, as if each was deleted by itself, like Azure
        does.
        """
        with self.store.lock:
            document = self.get(path.id)
            if document is None:
                return
            removed = [*self.below(path.id), document]
            self.discard(path.id)
        for resource in removed:
            rules = self._rules(resource["type"])
            rules.after_delete(arm_path.parse(resource["id"]), resource, request)

    def _act(self, path: ArmPath, request: Request) -> Response:
        rules = self._rules(path.kind)
        if path.tail.lower() == "startpendingupload" or not path.name:
            # An asset version's content is uploaded before the version exists, and a provider is no
            # resource.
            document = self._get(path) or {}
        else:
            document = self._existing(path)
        response = rules.act(path, document, path.tail, request)
        if response is None:
            raise AzureError(404, "NotFound", f"{path.kind} has no action {path.tail!r}")
        return response

    def _list(self, path: ArmPath, request: Request) -> Response:
        kind = path.collection_kind.lower()
        computed = self._lists.get(f"{path.kind}/{path.tail}".lower())
        if computed is not None:
            return Response(body={"value": computed(path, request)})
        if path.tail.lower() == "resources":
            self._existing(path)
            return Response(body={"value": self._of_group(path)})
        if path.tail.lower() == "resourcegroups":
            kind = "microsoft.resources/resourcegroups"
        if "/" not in kind:
            kind = f"{path.kind}/{path.tail}".lower()
        rules = self._rules(kind)
        if path.name and not rules.lists_without_parent and self._rules(path.kind).needs_parent:
            self._existing(path)
        documents = [
            shown(rules.show(arm_path.parse(document["id"]), document))
            for document in self.of_kind(kind, path.id)
        ]
        return Response(body={"value": rules.select(path, documents, request)})

    def _of_group(self, path: ArmPath) -> list[Document]:
        """Return the resources of a group as `az resource list` shows them: without child
        resources.
        """
        return [
            {
                name: document[name]
                for name in ("id", "name", "type", "location", "tags")
                if name in document
            }
            for document in self.below(path.id)
            if document["type"].count("/") == 1
        ]

    def _rules(self, kind: str) -> ResourceKind:
        return self._kinds.get(kind.lower(), _NO_RULES)

    def _get(self, path: ArmPath) -> Document | None:
        """Return a stored resource, or a subscription."""
        document = self.get(path.id)
        if document is None and path.kind == "Microsoft.Resources/subscriptions":
            return self._subscription(path.name)
        computed = self._computed.get(path.kind.lower())
        return computed(path) if document is None and computed is not None else document

    def _subscription(self, name: str) -> Document:
        return {
            "id": f"/subscriptions/{name}",
            "subscriptionId": name,
            "displayName": name,
            "tenantId": self.tenant_id,
            "state": "Enabled",
        }

    def _existing(self, path: ArmPath) -> Document:
        document = self._get(path)
        if document is None:
            raise self._missing(path)
        return document

    def _missing(self, path: ArmPath) -> AzureError:
        group = f"/subscriptions/{path.subscription}/resourceGroups/{path.group}"
        if path.group and self.get(group) is None:
            return AzureError(
                404,
                "ResourceGroupNotFound",
                f"Resource group '{path.group}' could not be found.",
            )
        return resource_not_found(path.kind, path.name, path.group)

    def _require_parent(self, path: ArmPath) -> None:
        if path.parent.count("/") == 2 or self.get(path.parent) is not None:
            return
        above = arm_path.parse(path.parent)
        if above.kind == "Microsoft.Resources/resourceGroups":
            raise self._missing(above)
        raise AzureError(
            404,
            "ParentResourceNotFound",
            f"Failed to perform 'write' on resource(s) of type '{path.kind}', because the parent"
            f" resource '{above.kind}/{above.name}' could not be found.",
        )


def merged(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a merge patch applied; null removes a key."""
    result = dict(before)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def _document(
    path: ArmPath, body: Document, before: Document | None, caller: str, rules: ResourceKind
) -> Document:
    now = timestamp()
    created = (before or {}).get("systemData", {})
    document: Document = {
        **body,
        "id": path.id,
        "name": path.name,
        "type": path.kind,
        "properties": dict(body.get("properties") or {}),
        "systemData": {
            "createdAt": created.get("createdAt", now),
            "createdBy": created.get("createdBy", caller),
            "createdByType": "Application",
            "lastModifiedAt": now,
            "lastModifiedBy": caller,
            "lastModifiedByType": "Application",
        },
    }
    if not rules.has_own_state:
        document["properties"]["provisioningState"] = "Succeeded"
    return document
