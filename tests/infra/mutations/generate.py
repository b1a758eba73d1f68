"""Mutations, generated from a stack: each input changed and removed, each resource removed.

Nothing here knows a rule. What no rule catches must be listed in `survivors`, with its reason.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from infra.resources import ASSIGNMENT, Resource

ELSEWHERE: Final = "/subscriptions/99999999-9999-9999-9999-999999999999/resourceGroups/elsewhere"
STRANGER: Final = "99999999-9999-9999-9999-999999999999"
WIDE_ROLES: Final = {
    "Owner": "8e3af657-a8ff-443c-a75c-2fe8c4bcb635",
    "User Access Administrator": "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9",
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Contributor": "b24988ac-6180-42a0-ab88-20f7382dd24c",
}
"""GUIDs of roles that allow more than a job needs ("Azure built-in roles")."""

MOST: Final = 2
"""Most resources of a kind, or items of a list, in which the same input is changed."""

OPPOSITE: Final = {
    one: other
    for pair in (
        ("Enabled", "Disabled"),
        ("enabled", "disabled"),
        ("Allow", "Deny"),
        ("Inbound", "Outbound"),
        ("Open", "PrivateOnly"),
        ("Tcp", "*"),
    )
    for one, other in (pair, pair[::-1])
}


FOREIGN: Final[Mapping[str, Mapping[str, Any]]] = {
    "authorization:RoleDefinition": {"permissions": [{"actions": ["*"]}]},
    "compute:VirtualMachine": {"vmName": "open"},
    "containerregistry:Token": {"status": "enabled"},
    "keyvault:Secret": {"secretName": "password"},
    "machinelearningservices:OnlineEndpoint": {"endpointName": "open"},
    "machinelearningservices:WorkspaceConnection": {"connectionName": "out"},
    "managedidentity:FederatedIdentityCredential": {"subject": "repo:x/y"},
    "network:BastionHost": {"bastionHostName": "open"},
    "network:PublicIPAddress": {"publicIpAddressName": "open"},
    "network:SecurityRule": {"access": "Allow", "direction": "Inbound"},
    "network:Subnet": {"name": "open"},
    "network:VirtualNetworkPeering": {"remoteVirtualNetwork": {"id": ELSEWHERE}},
    "storage:LocalUser": {"username": "stranger"},
    "storage:ObjectReplicationPolicy": {"destinationAccount": ELSEWHERE},
    "authorization:ManagementLockByScope": {"scope": ELSEWHERE},
}
"""Resources that open something, leave something, or stop the platform: each is added once."""


@dataclass(frozen=True)
class Mutation:
    """One change of a stack."""

    kind: str
    path: str
    """Path of the input, with `[]` for the items of a list and `*` for keys that are names; empty
    for a whole resource."""
    change: str
    """The change from one value to another, such as `data: sku.name = 'Premium_GRS'`."""
    resources: Sequence[Resource]
    """The changed stack."""
    changed: Resource | None
    """The resource that changed; None if one was removed."""

    @property
    def place(self) -> str:
        """Kind and path, as `survivors` lists them."""
        return f"{self.kind} {self.path}".strip()


def mutations(resources: Sequence[Resource]) -> Iterator[Mutation]:
    """Yield every mutation of a stack."""
    for kind, inputs in FOREIGN.items():
        extra = Resource(f"azure-native:{kind}", "extra", inputs, {}, f"{ELSEWHERE}/extra")
        yield Mutation(kind, "", "extra: added", [*resources, extra], extra)
    for resource in {one.kind: one for one in resources if one.type.startswith("azure-")}.values():
        other = replace(resource, inputs={**resource.inputs, "newInThisVersion": True})
        yield _with(resources, resource, other, "newInThisVersion", "newInThisVersion = True")
        ignoring = {**resource.options, "ignoreChanges": ["location"]}
        other = replace(resource, options=ignoring)
        yield _with(resources, resource, other, "option ignoreChanges", "ignoreChanges = location")
    seen: dict[tuple[str, str, str], int] = {}
    for resource in resources:
        if not resource.type.startswith("azure-native:"):
            continue
        yield Mutation(
            resource.kind, "", f"{resource.name}: removed",
            [one for one in resources if one is not resource], None,
        )  # fmt: skip
        for path, what, inputs in (*_changed(resource.inputs), *_widened(resource)):
            key = (resource.kind, path, what.split("=")[0])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= MOST:
                yield _with(resources, resource, replace(resource, inputs=inputs), path, what)
        for option, value in (("protect", False), ("retainOnDelete", True)):
            if bool(resource.options.get(option)) != value:
                other = replace(resource, options={**resource.options, option: value})
                yield _with(resources, resource, other, f"option {option}", f"{option} = {value}")


def _with(
    resources: Sequence[Resource], old: Resource, new: Resource, path: str, what: str
) -> Mutation:
    return Mutation(
        old.kind,
        path,
        f"{old.name}: {what}",
        [new if one is old else one for one in resources],
        new,
    )


def _widened(resource: Resource) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield role assignments that give more, in a wider scope, or to another principal."""
    if resource.kind != ASSIGNMENT:
        return
    inputs = resource.inputs
    for name, guid in WIDE_ROLES.items():
        role = str(inputs["roleDefinitionId"]).rpartition("/")[0] + "/" + guid
        if role != inputs["roleDefinitionId"]:
            yield "roleDefinitionId", f"role is {name}", {**inputs, "roleDefinitionId": role}
    scope = str(inputs["scope"])
    for wider in {scope.partition("/providers/")[0], scope.partition("/blobServices/")[0], "/"}:
        if wider != scope:
            yield "scope", f"scope is {wider}", {**inputs, "scope": wider}


def _changed(tree: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield copies of a tree of inputs, each with one value changed or removed."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            step = "*" if re.search(r"[/: ]", key) else key
            without = {one: tree[one] for one in tree if one != key}
            yield step, f"{key} removed", without
            for path, what, other in _changed(value):
                yield _joined(step, path), _joined(key, what), {**tree, key: other}
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            if len(tree) > 1 or not isinstance(value, Mapping):
                rest = [*tree[:index], *tree[index + 1 :]]
                yield "[]", f"[{index}] removed", rest
            for path, what, other in _changed(value):
                items = [*tree[:index], other, *tree[index + 1 :]]
                yield _joined("[]", path), _joined(f"[{index}]", what), items
    else:
        for other in (one for one in _others(tree) if one != tree):
            yield "", f" = {other!r}", other


def _joined(head: str, tail: str) -> str:
    return head + tail if not tail or tail[0] in "[ " else f"{head}.{tail}"


def _others(value: Any) -> list[Any]:
    """Return other values for one input: opposite, wider, longer, or another team's."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 1000 + 1000, 0]
    text = str(value)
    if text in OPPOSITE:
        return [OPPOSITE[text]]
    return next(
        (others(text) for shape, others in SHAPES if re.search(shape, text)), [f"other{text}"]
    )


SHAPES: Final[Sequence[tuple[str, Callable[[str], list[Any]]]]] = (
    (
        r"^/subscriptions/[^/]+/resourceGroups/[^/]+",
        lambda text: [re.sub(r"^/subscriptions/[^/]+/resourceGroups/[^/]+", ELSEWHERE, text)],
    ),
    (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", lambda _: [STRANGER]),
    (r"^\d+\.\d+\.\d+\.\d+(/\d+)?$", lambda _: ["0.0.0.0/0", "20.0.0.0/8"]),
    (r"^\d+(-\d+)?$", lambda _: ["*", "3389"]),
    (r"^P[0-9TDHMSY]+$", lambda _: ["P36500D"]),
    (r"_(LRS|ZRS)$", lambda text: [text[:-3] + one for one in ("RAGRS", "LRS", "ZRS")]),
    (r"^https://", lambda text: [f"https://other{text[8:]}"]),
)
"""Shapes of texts, and the replacement for a text of that shape."""
