"""Resource Manager: a store of resources that asks each kind for its own rules."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.control_plane import arm_path
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.resource_kind import Kind, new_id, now
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError, resource_not_found

PATH = "/providers/Microsoft.MachineLearningServices/locations/any/mfeOperationResults/"


@dataclass
class _Operation:
    due: float
    finish: Callable[[], None]
    done: bool = False


class Operations:
    """Operations that go on for a while after their request was answered."""

    def __init__(self, seconds: float) -> None:
        """Let operations take so many seconds."""
        self._seconds = seconds
        self._operations: dict[str, _Operation] = {}
        self._lock = threading.RLock()

    def accept(self, subscription: str, base: str, finish: Callable[[], None]) -> Answer:
        """Answer a request whose work is done later.

        Args:
            subscription: that the operation belongs to.
            base: address of this Azure.
            finish: does the work.
        """
        name = new_id()
        with self._lock:
            self._operations[name] = _Operation(time.monotonic() + self._seconds, finish)
        address = f"{base}/subscriptions/{subscription}{PATH}{name}"
        return Answer(202, None, {"Location": address, "Retry-After": "1"})

    def settle(self) -> None:
        """Do what is due."""
        with self._lock:
            for operation in self._operations.values():
                if not operation.done and operation.due <= time.monotonic():
                    operation.done = True
                    operation.finish()

    def answer(self, path: str) -> Answer | None:
        """Whether an operation goes on, or none if the path is that of no operation."""
        _, marker, name = path.partition(PATH)
        if not marker:
            return None
        with self._lock:
            operation = self._operations.get(name)
        if operation is None:
            raise AzureError(404, "NotFound", f"There is no operation {name}")
        return Answer(200, {"status": "Succeeded"}) if operation.done else Answer(202)


SPACE = "resources"


_PLAIN = Kind()


class Resources:
    """All resources, of all subscriptions."""

    def __init__(self, store: Store) -> None:
        """Know no kind yet."""
        self.store = store
        self.kinds: dict[str, Kind] = {}
        self.later: Callable[[ArmPath, Callable[[], None]], Answer] | None = None
        """Answers a request whose work goes on; none if all is done at once."""
        self.collections: dict[str, Callable[[ArmPath, Asked], list[Document]]] = {}
        """Functions of (path, asked) that answer a GET of a collection by themselves."""

    def register(self, kinds: Mapping[str, Kind]) -> None:
        """Add rules of kinds."""
        self.kinds |= {name.lower(): kind for name, kind in kinds.items()}

    def rules(self, kind: str) -> Kind:
        """Rules of a kind."""
        return self.kinds.get(kind.lower(), _PLAIN)

    def get(self, identifier: str) -> Document | None:
        """A resource as it is stored."""
        return self.store.get(SPACE, identifier)

    def update(self, identifier: str, properties: Mapping[str, Any]) -> None:
        """Change properties of a resource, if it is still there."""
        with self.store.lock:
            document = self.get(identifier)
            if document is not None:
                document["properties"] |= properties
                self.store.put(SPACE, identifier, document)

    def of_kind(self, kind: str, below: str = "") -> list[Document]:
        """Stored resources of a kind."""
        wanted = kind.lower()
        return [
            document
            for document in self.store.below(SPACE, below, f"/{kind.rpartition('/')[2]}/")
            if document["type"].lower() == wanted
        ]

    def answer(self, asked: Asked) -> Answer:
        """Answer a request below /subscriptions.

        Raises:
            AzureError: it is refused.
        """
        path = arm_path.parse(asked.path)
        if path.tail:
            return (self._act if asked.method == "POST" else self._list)(path, asked)
        match asked.method:
            case "PUT":
                return self._put(path, asked)
            case "PATCH":
                return self._patch(path, asked)
            case "DELETE":
                return self._delete(path, asked)
            case "HEAD":
                return Answer(204 if self._found(path, refuse=False) else 404)
            case _:
                found = self._found(path)
                return Answer(body=self.rules(path.kind).show(path, found))

    def put(self, identifier: str, body: Document, caller: str = "platform") -> Document:
        """Write a resource; what it has become."""
        path = arm_path.parse(identifier)
        rules = self.rules(path.kind)
        with self.store.lock:
            before = self.get(path.id)
            if not rules.implied:
                self._require_parent(path)
            rules.check(path, body, before)
            document = _document(path, body, before, caller, rules)
            rules.complete(path, document, before)
            self.store.put(SPACE, path.id, document)
        rules.stored(path, document)
        return rules.show(path, document)

    def _put(self, path: ArmPath, asked: Asked) -> Answer:
        created = self.get(path.id) is None
        return Answer(201 if created else 200, self.put(path.id, asked.json(), asked.caller))

    def _patch(self, path: ArmPath, asked: Asked) -> Answer:
        before = self._found(path)
        return Answer(200, self.put(path.id, merged(before, asked.json()), asked.caller))

    def _delete(self, path: ArmPath, asked: Asked) -> Answer:
        rules = self.rules(path.kind)
        with self.store.lock:
            document = self.get(path.id)
            if document is None and rules is _PLAIN:
                return Answer(204)
            answer = rules.delete(path, document or {}, asked)
            if document is not None and answer.status == 200:
                if rules.slow and self.later is not None:
                    self.update(path.id, {"provisioningState": "Deleting"})
                    return self.later(path, lambda: self._remove(path, asked))
                self._remove(path, asked)
            return Answer(204) if document is None and answer.status == 200 else answer

    def _remove(self, path: ArmPath, asked: Asked) -> None:
        """Remove a resource and all below it, which Azure does as if each was deleted alone."""
        with self.store.lock:
            document = self.get(path.id)
            if document is None:
                return
            gone = [*self.store.below(SPACE, path.id), document]
            self.store.delete(SPACE, path.id)
        for one in gone:
            self.rules(one["type"]).deleted(arm_path.parse(one["id"]), one, asked)

    def _act(self, path: ArmPath, asked: Asked) -> Answer:
        rules = self.rules(path.kind)
        document = self._found(path, refuse=path.tail.lower() != "startpendingupload")
        answer = rules.act(path, document, path.tail, asked)
        if answer is None:
            raise AzureError(404, "NotFound", f"{path.kind} has no action {path.tail!r}")
        return answer

    def _list(self, path: ArmPath, asked: Asked) -> Answer:
        kind = path.collection_kind.lower()
        own = self.collections.get(f"{path.kind}/{path.tail}".lower())
        if own is not None:
            return Answer(body={"value": own(path, asked)})
        if path.tail.lower() == "resources":
            self._found(path)
            return Answer(body={"value": self._of_group(path)})
        if path.tail.lower() == "resourcegroups":
            kind = "microsoft.resources/resourcegroups"
        if "/" not in kind:
            kind = f"{path.kind}/{path.tail}".lower()
        rules = self.rules(kind)
        if path.name and not (rules.searched or self.rules(path.kind).implied):
            self._found(path)
        below = [
            rules.show(arm_path.parse(document["id"]), document)
            for document in self.of_kind(kind, path.id)
        ]
        return Answer(body={"value": rules.listed(path, below, asked)})

    def _of_group(self, path: ArmPath) -> list[Document]:
        """Resources of a group as `az resource list` sees them: without their parts."""
        return [
            {
                name: document[name]
                for name in ("id", "name", "type", "location")
                if name in document
            }
            for document in self.store.below(SPACE, path.id)
            if document["type"].count("/") == 1
        ]

    def _found(self, path: ArmPath, *, refuse: bool = True) -> Document:
        document = self.get(path.id)
        if document is None and path.kind == "Microsoft.Resources/subscriptions":
            return {"id": path.id, "subscriptionId": path.name, "state": "Enabled"}
        if document is None and refuse:
            raise self._missing(path)
        return document or {}

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
    """A document with a change to it; null removes."""
    found = dict(before)
    for name, value in change.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(found.get(name), Mapping):
            found[name] = merged(found[name], value)
        else:
            found[name] = value
    return found


def _document(
    path: ArmPath, body: Document, before: Document | None, caller: str, rules: Kind
) -> Document:
    time = now()
    created = (before or {}).get("systemData", {})
    document: Document = {
        **body,
        "id": path.id,
        "name": path.name,
        "type": path.kind,
        "properties": dict(body.get("properties") or {}),
        "systemData": {
            "createdAt": created.get("createdAt", time),
            "createdBy": created.get("createdBy", caller),
            "createdByType": "Application",
            "lastModifiedAt": time,
            "lastModifiedBy": caller,
            "lastModifiedByType": "Application",
        },
    }
    if not rules.accepted:
        document["properties"]["provisioningState"] = "Succeeded"
    return document
