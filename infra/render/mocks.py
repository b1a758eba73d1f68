"""Mocks of Pulumi's engine and of Azure, and a record of the registrations.

Every answer is computed from the request alone, so equal programs render equally.
"""

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime import mocks

from infra.catalog import resource_ids
from infra.leaves import TYPES
from infra.resources import OWN_PROVIDER, PROVIDER, Resource
from infra.stack_config import PLACEHOLDERS

TENANT = PLACEHOLDERS["tenant"]


UNPINNED = "99999999-9999-4999-8999-999999999999"
"""Subscription of a resource without a provider of the stack's own: whichever the Azure CLI has
selected, which is not the stack's."""


class Azure(mocks.Mocks):
    """Azure's answers, without its state."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Return the id and outputs of a resource: its inputs, and what Azure adds."""
        if args.typ == PROVIDER:
            return str(args.inputs["subscriptionId"]), {}
        if not args.typ.startswith("azure-native:"):
            return "", {}
        if args.resource_id:
            kind = args.typ.rsplit(":", 1)[-1]
            return args.resource_id, _identity(
                {}, args.resource_id
            ) if kind == "UserAssignedIdentity" else {}
        inputs = plain(args.inputs)
        # A provider of the stack's own is referred to as URN::ID.
        subscription = (args.provider or "").rpartition("::")[2] or UNPINNED
        id_ = resource_ids.identifier(args.typ, inputs, subscription, TYPES)
        kind = args.typ.rsplit(":", 1)[-1]
        outputs = ADDED[kind](inputs, id_) if kind in ADDED else {}
        return id_, {**inputs, **_identities(inputs), "name": resource_ids.name(id_), **outputs}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Return the result of a provider function."""
        raise NotImplementedError(f"{args.token} is not mocked in infra/render/mocks.py")


class Monitor(mocks.MockMonitor):
    """Accepts registrations as the engine does, and records their inputs and options."""

    def __init__(self) -> None:
        super().__init__(Azure())
        self.recorded: list[Resource] = []
        self.providers: dict[str, Mapping[str, Any]] = {}
        self.hooks: dict[str, pulumi.ResourceHook] = {}
        self._lock = threading.Lock()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the protocol's name)
        """Answer one registration."""
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type == PROVIDER:
            given = plain(pulumi.runtime.rpc.deserialize_properties(request.object))
            self.providers[request.name] = given
        if request.type != "pulumi:pulumi:Stack":
            inputs = plain(pulumi.runtime.rpc.deserialize_properties(request.object))
            resource = Resource(
                request.type,
                request.name,
                {key: value for key, value in inputs.items() if value is not None},
                engine_options(request),
                "" if request.type == PROVIDER else response.id,
                _answered(response),
            )
            with self._lock:
                self.recorded.append(resource)
        return response

    def register_resource_hook(self, hook: pulumi.ResourceHook) -> None:
        """Keep a hook, as the engine would until an update of its resource."""
        self.hooks[hook.name] = hook


def _answered(response: Any) -> dict[str, Any]:
    """Return the outputs that rules read."""
    answer = response.object.fields
    return {"principalId": answer["principalId"].string_value} if "principalId" in answer else {}


def engine_options(request: Any) -> dict[str, Any]:
    """Return the resource options of a registration that were set."""
    hooks = {descriptor.name: list(names) for descriptor, names in request.hooks.ListFields()}
    set_options = {
        "parent": _key(request.parent),
        "protect": request.protect,
        "dependsOn": sorted({_key(urn) for urn in request.dependencies}),
        "deletedWith": _key(request.deletedWith),
        "deleteBeforeReplace": request.deleteBeforeReplace,
        "replaceOnChanges": list(request.replaceOnChanges),
        "ignoreChanges": list(request.ignoreChanges),
        "retainOnDelete": request.retainOnDelete,
        "import": request.importId,
        # Values of the whole stack are left out, so that a snapshot shows exceptions.
        "provider": _other_provider(request),
        "hooks": hooks,
    }
    return {name: option for name, option in set_options.items() if option}


def _other_provider(request: Any) -> str:
    """Return the name of a resource's provider if it is not the stack's own."""
    if not request.type.startswith("azure-native:"):
        return ""
    name = _key(request.provider.rpartition("::")[0]).rpartition("::")[2]
    return "" if name == OWN_PROVIDER else name or "default"


def plain(value: Any) -> Any:
    """Convert to JSON data: the protocol has one number type, so whole numbers become integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def guid(text: str) -> str:
    """Return a GUID that is stable for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def _key(urn: str) -> str:
    """Return `type::name` of a URN; empty for the stack, which is not a declared resource."""
    if not urn:
        return ""
    _, _, types, name = urn.removeprefix("urn:pulumi:").split("::", 3)
    own = types.rsplit("$", 1)[-1]
    return "" if own == "pulumi:pulumi:Stack" else f"{own}::{name}"


def _identities(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identities as a map by id, as Azure answers; azure-native takes a list."""
    identity = inputs.get("identity")
    if not identity or not identity.get("userAssignedIdentities"):
        return {}
    principals = {
        id_: {"principalId": guid(id_ + "/principal"), "clientId": guid(id_ + "/client")}
        for id_ in identity["userAssignedIdentities"]
    }
    return {"identity": {**identity, "userAssignedIdentities": principals}}


def _identity(_: Mapping[str, Any], id_: str) -> dict[str, Any]:
    return {
        "principalId": guid(id_ + "/principal"),
        "clientId": guid(id_ + "/client"),
        "tenantId": TENANT,
    }


def _vault(inputs: Mapping[str, Any], _: str) -> dict[str, Any]:
    uri = f"https://{inputs['vaultName']}.vault.azure.net/"
    return {"properties": {**inputs["properties"], "vaultUri": uri}}


def _key_of_vault(inputs: Mapping[str, Any], id_: str) -> dict[str, Any]:
    uri = f"https://{inputs['vaultName']}.vault.azure.net/keys/{inputs['keyName']}"
    return {"keyUri": uri, "keyUriWithVersion": f"{uri}/{uuid.UUID(guid(id_)).hex}"}


def _account(inputs: Mapping[str, Any], _: str) -> dict[str, Any]:
    name = inputs["accountName"]
    services = ("blob",) if inputs["kind"] == "BlockBlobStorage" else ("blob", "file")
    return {
        "primaryEndpoints": {
            service: f"https://{name}.{service}.core.windows.net/" for service in services
        }
    }


def _workspace(_: Mapping[str, Any], id_: str) -> dict[str, Any]:
    return {"workspaceId": guid(id_)}


def _registry(inputs: Mapping[str, Any], _: str) -> dict[str, Any]:
    return {"loginServer": f"{inputs['registryName'].lower()}.azurecr.io"}


ADDED: Mapping[str, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {
    "UserAssignedIdentity": _identity,
    "Vault": _vault,
    "Key": _key_of_vault,
    "StorageAccount": _account,
    "Registry": _registry,
    "Workspace": _workspace,
}
"""Functions that return a resource's outputs beyond its inputs, by kind of resource."""
