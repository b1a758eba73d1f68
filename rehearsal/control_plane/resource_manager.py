"""Resource Manager: a store of resources that applies the rules of each kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from rehearsal.control_plane import arm_path
from rehearsal.control_plane.answers import BUSY, Answer, Answers, AnswersByKind
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import timestamp
from rehearsal.control_plane.defaults import Defaults, filled
from rehearsal.control_plane.envelopes import shown
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.operations import Operations, State
from rehearsal.control_plane.resource_kind import ResourceKind
from rehearsal.control_plane.store import Document, Store
from rehearsal.errors import AzureError, resource_not_found

ListResources: TypeAlias = Callable[[ArmPath, Request], list[Document]]
"""Lists a collection whose resources are computed, not stored."""

Compute: TypeAlias = Callable[[ArmPath], Document]
"""Returns a resource that is computed, not stored."""

_SPACE = "resources"
_NO_RULES = ResourceKind()
_USUAL = Answers()
_LASTING: Final = "/providers/microsoft.insights/diagnosticsettings/"
"""Part of the ids of resources that outlive their owners."""


@dataclass
class ResourceManager:
    """All resources of all subscriptions."""

    store: Store
    operations: Operations
    """Changes and deletions that take time."""
    tenant_id: str = ""
    """Id of the tenant of all subscriptions."""
    subscriptions: Sequence[str] | None = None
    """Ids of the subscriptions that exist; None if every one does, of which those with a resource
    group are listed."""
    _kinds: dict[str, ResourceKind] = field(default_factory=dict, init=False)
    _lists: dict[str, ListResources] = field(default_factory=dict, init=False)
    _computed: dict[str, Compute] = field(default_factory=dict, init=False)
    _answers: dict[str, Answers] = field(default_factory=dict, init=False)
    _defaults: dict[str, Defaults] = field(default_factory=dict, init=False)
    _spelled: dict[str, str] = field(default_factory=dict, init=False)
    """Kinds as Azure spells them, by their names in lower case."""

    def register(self, kinds: Mapping[str, ResourceKind]) -> None:
        """Add rules of kinds, by names such as Microsoft.Storage/storageAccounts."""
        self._kinds |= {name.lower(): kind for name, kind in kinds.items()}
        self._spelled |= {name.lower(): name for name in kinds}

    def register_lists(self, lists: Mapping[str, ListResources]) -> None:
        """Add computed collections, by the names of their kinds."""
        self._lists |= {name.lower(): function for name, function in lists.items()}

    def register_computed(self, kinds: Mapping[str, Compute]) -> None:
        """Add kinds whose resources are computed, by their names."""
        self._computed |= {name.lower(): function for name, function in kinds.items()}

    def register_bodies(self, answers: AnswersByKind, defaults: Mapping[str, Defaults]) -> None:
        """Add how Azure answers about kinds, and their defaults, by their names."""
        self._answers |= {name.lower(): row for name, row in answers.items()}
        self._defaults |= {name.lower(): row for name, row in defaults.items()}
        self._spelled = {name.lower(): name for name in (*answers, *defaults)} | self._spelled

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

    def put(
        self, identifier: str, body: Document, caller: str = "platform", version: str = ""
    ) -> Document:
        """Write a resource; return it as a GET shows it when the operation has ended.

        Args:
            identifier: Id of the resource.
            body: Body of the PUT.
            caller: Object id of the caller.
            version: API version of the request; empty for the newest.

        Raises:
            AzureError: the rules refuse it.
        """
        path = self._path(identifier, version)
        return self.shown(path, self._write(path, body, caller))

    def _write(self, path: ArmPath, body: Document, caller: str) -> Document:
        """Write a resource, and return it as it is stored."""
        rules = self._rules(path.kind)
        with self.store.lock:
            before = self.get(path.id)
            if rules.needs_parent:
                self._require_parent(path, "write")
            rules.check(path, body, before)
            document = _document(path, body, before, caller, rules)
            rules.complete(path, document, before)
            self.store.put(_SPACE, path.id, document)
        rules.after_put(path, document)
        return document

    def shown(self, path: ArmPath, document: Document) -> Document:
        """Return a stored resource as a GET shows it, in the API version of the path."""
        seen = {**document, "properties": dict(document.get("properties") or {})}
        defaults = self._defaults.get(path.kind.lower(), {})
        seen = filled(self._rules(path.kind).show(path, seen), defaults, path.version)
        return shown(seen, path.version)

    def respond(self, request: Request) -> Response:
        """Respond to a request below /subscriptions.

        Raises:
            AzureError: the rules refuse it.
        """
        self.operations.finish_due()
        if request.path.rstrip("/") == "/subscriptions":
            groups = self.of_kind("Microsoft.Resources/resourceGroups")
            used = dict.fromkeys(str(group["id"]).split("/")[2] for group in groups)
            known = used if self.subscriptions is None else self.subscriptions
            return Response(body={"value": [self._subscription(name) for name in known]})
        return self.operations.response(request) or self._respond(request)

    def _respond(self, request: Request) -> Response:
        version = request.query.get("api-version", "")
        path = self._path(request.path, version)
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
                return self._change(path, request.json(), request.caller)
            case "PATCH":
                patched = merged(self._existing(path), request.json())
                return self._change(path, patched, request.caller)
            case "DELETE":
                return self._delete(path, request)
            case "HEAD":
                return Response(204 if self._get(path) is not None else 404)
            case _:
                return Response(body=self.shown(path, self._existing(path)))

    def _change(self, path: ArmPath, body: Document, caller: str) -> Response:
        """Respond to a PUT or a PATCH, whose operation may continue."""
        is_new = self.get(path.id) is None
        document = self._write(path, body, caller)
        answers = self._answers.get(path.kind.lower(), _USUAL)
        answer = answers.created if is_new else answers.replaced
        if answer.continues and not self._rules(path.kind).takes_time(path, document, ends=False):
            answer = Answer(200)
        seen = {**document, "properties": dict(document["properties"])}
        if answer.state:
            seen["properties"]["provisioningState"] = answer.state
            if self.operations.seconds:
                self.update(path.id, {"provisioningState": answer.state})
        headers: Mapping[str, str] = {}
        if answer.continues or answer.location:
            headers = self.operations.accept(
                path,
                answers,
                answer,
                self._location(path),
                lambda: self._settle(path, answer.state),
                lambda: self._state(path),
                lambda: self._result(path, answers),
            )
        if answer.body != "resource":
            return Response(answer.status, {} if answer.body else None, headers)
        result = self.shown(path, seen)
        for name in answer.hidden:
            result["properties"].pop(name, None)
        return Response(answer.status, result, headers)

    def _settle(self, path: ArmPath, state: str) -> None:
        """End the operation on a resource that still is in its state."""
        with self.store.lock:
            document = self.get(path.id)
            if state and document and document["properties"].get("provisioningState") == state:
                self.update(path.id, {"provisioningState": "Succeeded"})

    def _state(self, path: ArmPath) -> State:
        """Return how the operation on a resource has ended, if it has."""
        document = self.get(path.id)
        properties = self.shown(path, document)["properties"] if document else {}
        known = str(properties.get("provisioningState", ""))
        return "InProgress" if known in BUSY else "Failed" if known == "Failed" else "Succeeded"

    def _result(self, path: ArmPath, answers: Answers) -> Document | None:
        document = self.get(path.id)
        return self.shown(path, document) if document and answers.result_has_body else None

    def _location(self, path: ArmPath) -> str:
        """Return the region of a resource, or of its parent."""
        while path.id.count("/") > 2:
            location = (self.get(path.id) or {}).get("location")
            if location:
                return str(location)
            path = self._path(path.parent)
        return ""

    def _delete(self, path: ArmPath, request: Request) -> Response:
        rules = self._rules(path.kind)
        with self.store.lock:
            document = self.get(path.id) if self._get(path) is not None else None
            if document is not None:
                rules.check_delete(path, document, request)
                return self.end(path, document, request)
        if rules.purge(path, request):
            return Response(200)
        if path.kind == "Microsoft.Resources/resourceGroups":
            raise self._missing(path)
        if not path.kind.lower().startswith("microsoft.authorization/"):
            self._require_parent(path, "delete")
        return Response(204)

    def end(self, path: ArmPath, document: Document, request: Request) -> Response:
        """Delete a resource, or begin to, without asking its rules; respond as Azure does."""
        answers = self._answers.get(path.kind.lower(), _USUAL)
        answer = answers.deleted
        if answer.continues and not self._rules(path.kind).takes_time(path, document, ends=True):
            answer = Answer(200, body="")
        seen = {**document, "properties": dict(document["properties"])}
        if answer.state:
            seen["properties"]["provisioningState"] = answer.state
        body = self.shown(path, seen) if answer.body else None
        if not answer.continues:
            self._remove(path, request)
            return Response(answer.status, body)
        location = self._location(path)
        if self.operations.seconds:
            self.update(path.id, {"provisioningState": "Deleting"})
        headers = self.operations.accept(
            path, answers, answer, location, lambda: self._remove(path, request)
        )
        return Response(answer.status, body, headers)

    def _remove(self, path: ArmPath, request: Request) -> None:
        """Remove a resource and everything below it, as if each was deleted by itself, like Azure
        does. Diagnostic settings of other resources stay.
        """
        with self.store.lock:
            document = self.get(path.id)
            if document is None:
                return
            below = self.below(path.id)
            lasting = [child for child in below if _LASTING in child["id"][len(path.id) :].lower()]
            self.discard(path.id)
            for child in lasting:
                self.store.put(_SPACE, child["id"], child)
        for resource in [*(child for child in below if child not in lasting), document]:
            rules = self._rules(resource["type"])
            rules.after_delete(self._path(resource["id"]), resource, request)

    def _act(self, path: ArmPath, request: Request) -> Response:
        rules = self._rules(path.kind)
        if path.tail.lower() == "startpendingupload" or not path.name:
            # An asset version's content is uploaded before the version exists, and a provider is
            # not a resource.
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
            self.shown(self._path(document["id"], path.version), document)
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

    def _path(self, text: str, version: str = "") -> ArmPath:
        """Parse a path; its kind is spelled as Azure does, whatever the letter case."""
        path = arm_path.parse(text)
        return replace(path, kind=self._spelled.get(path.kind.lower(), path.kind), version=version)

    def _rules(self, kind: str) -> ResourceKind:
        return self._kinds.get(kind.lower(), _NO_RULES)

    def _get(self, path: ArmPath) -> Document | None:
        """Return a stored resource, or a subscription. Children of a missing resource are not
        shown.
        """
        if _LASTING in path.id.lower() and self._get(self._path(path.parent)) is None:
            return None
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
        code, message = self._answers.get(path.kind.lower(), _USUAL).missing
        if code:
            above = path.parent.rpartition("/")[2]
            return AzureError(404, code, message.format(id=path.id, name=path.name, above=above))
        return resource_not_found(path.kind, path.name, path.group)

    def _require_parent(self, path: ArmPath, verb: str) -> None:
        """Raise the 404 of a resource whose group, or parent, does not exist."""
        if path.parent.count("/") == 2 or self.get(path.parent) is not None:
            return
        above = self._path(path.parent)
        if not self._rules(path.kind).needs_parent and above.kind.lower() not in self._kinds:
            # A region, or the name of versions, is not a resource; its group may be missing.
            above = replace(above, name="", kind="Microsoft.Resources/resourceGroups")
        group = f"/subscriptions/{path.subscription}/resourceGroups/{path.group}"
        if path.group and self.get(group) is None:
            raise self._missing(above)
        if above.kind == "Microsoft.Resources/resourceGroups":
            return
        of_provider = path.id.lower().count("/providers/") > 1
        if verb == "delete" and (of_provider or self._answers.get(path.kind.lower(), _USUAL).bare):
            raise resource_not_found(above.kind, above.name, above.group)
        raise AzureError(
            404,
            "ParentResourceNotFound",
            f"Failed to perform '{verb}' on resource(s) of type"
            f" '{path.kind.partition('/')[2]}', because the parent"
            f" resource '{above.id}' could not be found.",
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
